"""``eventhub pipeline run``: bring the lake up to date, once or again and again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from cyclopts import Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, duration, plain
from eventhub.cli.pipeline.options import SparkOptions
from eventhub.cli.pipeline.progress import Progress
from eventhub.cli.times import length
from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from eventhub.pipeline.running import Pipeline, Run

__all__ = ["run"]

MOST_PARTITIONS: Final = 10_000
INTERRUPTED: Final = 130


def run(
    *,
    once: Annotated[bool, Parameter(help="One run, then end: the default.", negative="")] = False,
    continuous: Annotated[bool, Parameter(help="Run again and again until it is told to stop.", negative="")] = False,
    interval: Annotated[str, Parameter(help="How long to rest between two runs: 10s, 5m.")] = "10s",
    only: Annotated[
        tuple[Literal["copy", "derive", "tidy"], ...],
        Parameter(help="Only this stage; again for more.", negative_iterable=(), show_default=False),
    ] = (),
    partitions: Annotated[
        int | None,
        Parameter(help="Tasks that copy at the same time; by default as many as Spark has cores.", show_default=False),
    ] = None,
    options: SparkOptions | None = None,
) -> int:
    """Bring the lake up to date: copy what is new, derive facts and marts from it, and tidy up.

    One process at a time does this for a hub. It can be stopped or killed at any moment; the next run goes on from
    there, and every row is in the lake once. The first signal to stop ends it after the step under way, the second
    at once.
    """
    options = options or SparkOptions()
    if once and continuous:
        raise SettingsError("--once and --continuous exclude each other: give one of them.")
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise SettingsError(f"--partitions is {partitions}; give 1 to {MOST_PARTITIONS:,}.")
    rest = length("interval", interval).total_seconds()
    try:
        import eventhub.pipeline  # noqa: F401 - whether it is there
    except ImportError as error:
        raise SettingsError("The pipeline needs more packages: pip install 'eventhub[spark]'.") from error
    return asyncio.run(_run(options, only=only, partitions=partitions, rest=rest if continuous else None))


async def _run(
    options: SparkOptions,
    *,
    only: tuple[Literal["copy", "derive", "tidy"], ...],
    partitions: int | None,
    rest: float | None,
) -> int:
    from eventhub.lake.place import Lake
    from eventhub.pipeline.running import STAGES, LazySpark, Pipeline

    settings = options.load().settings
    progress = Progress(quiet=options.json)
    spark = LazySpark(options.session, progress)
    async with open_existing(settings) as store:
        pipeline = Pipeline(
            store, Lake(settings.lake), spark=spark, teller=progress, stages=only or STAGES, partitions=partitions
        )
        signals = _end_by_signal(pipeline)
        try:
            if rest is not None:
                await pipeline.again_and_again(rest, _shown_round(progress, json=options.json))
                return INTERRUPTED if signal.SIGINT in signals else 0
            done = await pipeline.once()
        finally:
            progress.close()
            await asyncio.to_thread(spark.stop)
    _print(done, json=options.json)
    return 0 if done.finished else INTERRUPTED


def _end_by_signal(pipeline: Pipeline) -> list[int]:
    """The first signal stops the run between two steps, the second ends the process where it is."""
    got: list[int] = []

    def stop(number: int) -> None:
        got.append(number)
        if len(got) > 1:
            sys.stderr.flush()
            os._exit(INTERRUPTED)  # every step can be cut short anywhere; Java ends with its parent
        pipeline.stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop, number)
    return got


def _shown_round(progress: Progress, *, json: bool) -> Callable[[Run | Exception], None]:
    def shown(done: Run | Exception) -> None:
        if isinstance(done, Exception):
            progress.say(f"{done} The next run will try again.")
        elif json:
            sys.stdout.write(msgspec.json.encode(_told(done)).decode() + "\n")
            sys.stdout.flush()

    return shown


def _told(done: Run) -> dict[str, object]:
    return {
        "finished": done.finished,
        "rows": done.rows,
        "copied": done.copied,
        "derived": done.derived,
        "tidied": done.tidied,
        "seconds": done.seconds,
    }


def _print(done: Run, *, json: bool) -> None:
    if json:
        document(_told(done))
        return
    took = duration(sum(done.seconds.values()))
    words = f"{done.rows:,} new rows in the lake" if done.rows else "Nothing new"
    console().print(plain(f"{words}, {took}." if done.finished else f"Stopped: {words}, {took}."))
