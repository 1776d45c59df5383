"""A process that copies what happened to a lake, again and again, and may be killed at any moment.

Each copy is one part, which needs no Spark.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from eventhub.lake.place import Lake
from eventhub.pipeline.running import Pipeline, Run, Stage
from eventhub.store import Store, open_store
from eventhub.testing.torture.history import History
from eventhub.testing.torture.roles.patience import deafen, opened


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    lake: str
    interval: float = 0.0


class Silent:
    def begin(self, step: str) -> None: ...
    def note(self, doing: str) -> None: ...
    def end(self, words: str) -> None: ...


def no_spark() -> NoReturn:
    raise RuntimeError("A copy in one part needs no Spark.")


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(copy(arguments, history))


async def copy(arguments: Arguments, history: History) -> None:
    def done(run: Run | Exception) -> None:
        if isinstance(run, Exception):
            history.note("copy", error=str(run))
        else:
            history.note("copy", size=run.rows)

    async with opened(open_store(arguments.url)) as store:
        pipeline = _pipeline(store, arguments.lake, ("copy", "tidy"))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, pipeline.stop.set)
        await pipeline.again_and_again(arguments.interval, done)
    history.note("end")
    deafen()


async def copy_the_rest(url: str, lake: Path) -> None:
    """Once more, undisturbed, until the lake has everything. Raises what stands in the way."""
    async with open_store(url) as store:
        while (await _pipeline(store, str(lake), ("copy",)).once()).rows:
            pass


def _pipeline(store: Store, lake: str, stages: Sequence[Stage]) -> Pipeline:
    return Pipeline(store, Lake(lake), spark=no_spark, teller=Silent(), stages=stages, partitions=1)
