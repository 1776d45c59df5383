"""Events for the tests of the data source, published the way everybody does."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from eventhub.core.lifecycle import Complete
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.values import Report


def publish(url: str, events: Sequence[dict[str, Any]]) -> list[int]:
    async def work() -> list[int]:
        async with open_store(url) as store:
            return [one.id for one in await store.publish(Composer("default").many(events))]

    return asyncio.run(work())


def numbered(count: int, *, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"type": f"kind.{number % 3}", "payload": {"n": number}, **more} for number in range(first, first + count)]


def complete(url: str, count: int) -> None:
    """Claim and complete some of the work, so that the log has more to tell."""

    async def work() -> None:
        async with open_store(url) as store:
            await finish(store, count)

    asyncio.run(work())


async def finish(store: Store, count: int) -> None:
    claims = await store.claim("default", worker="w", lease=timedelta(minutes=1), limit=count)
    await store.settle([Report(claim.held, Complete()) for claim in claims])
