"""A process that archives everything from before some day, in small steps, until it is done or killed."""

import asyncio
from datetime import datetime
from typing import Any

from eventhub.lake.place import Lake
from eventhub.pipeline import archiving
from eventhub.store import open_store


def main(arguments: dict[str, Any]) -> None:
    archiving.BATCH = arguments["batch"]  # type: ignore[misc]

    async def run() -> None:
        async with open_store(arguments["url"]) as store:
            before = datetime.fromisoformat(arguments["before"])
            days = archiving.archive(store, arguments["url"], Lake(arguments["lake"]), before=before)
            assert not [day.trouble async for day in days if day.trouble]

    asyncio.run(run())
