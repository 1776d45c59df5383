"""A process that copies to the lake again and again, until it is killed."""

import asyncio
from typing import TYPE_CHECKING, Any

from eventhub.errors import EventHubError
from eventhub.lake.place import Lake
from eventhub.pipeline.running import Pipeline, Run
from eventhub.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Silent:
    def begin(self, step: str) -> None: ...
    def note(self, doing: str) -> None: ...
    def end(self, words: str) -> None: ...


def no_spark() -> "SparkSession":
    raise AssertionError("what is small needs no Spark")


def check(done: Run | Exception) -> None:
    if isinstance(done, EventHubError):
        raise done


def main(arguments: dict[str, Any]) -> None:
    async def run() -> None:
        async with open_store(arguments["url"]) as store:
            lake = Lake(arguments["lake"])
            pipeline = Pipeline(store, lake, spark=no_spark, teller=Silent(), stages=("copy", "tidy"))
            await pipeline.again_and_again(0.0, check)

    asyncio.run(run())
