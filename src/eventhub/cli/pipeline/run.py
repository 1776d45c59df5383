"""``eventhub pipeline run``: bring the lake up to date, once or again and again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from cyclopts import Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, duration, plain
from eventhub.cli.pipeline.options import SparkOptions, needs_spark
from eventhub.cli.pipeline.progress import Progress
from eventhub.cli.times import length
from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from eventhub.pipeline.running import Pipeline, Run, Stage
    from eventhub.store import Store

__all__ = ["run"]

MOST_PARTITIONS: Final = 10_000
MOST_PORTS: Final = 65_536
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
    rebaseline: Annotated[
        bool,
        Parameter(
            help="Put a lake right that does not fit the database, as after a restore: copy what it lacks.", negative=""
        ),
    ] = False,
    metrics_port: Annotated[
        int | None, Parameter(help="Serve numbers for Prometheus on this port.", show_default=False)
    ] = None,
    metrics_host: Annotated[str, Parameter(help="The address that they are served on.")] = "127.0.0.1",
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
    if metrics_port is not None and not 0 < metrics_port < MOST_PORTS:
        raise SettingsError(f"--metrics-port is {metrics_port}; give 1 to {MOST_PORTS - 1}.")
    rest = length("interval", interval).total_seconds() if continuous else None
    needs_spark()
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    return asyncio.run(
        _run(options, only=only, partitions=partitions, rebaseline=rebaseline, rest=rest, metrics=metrics)
    )


async def _run(
    options: SparkOptions,
    *,
    only: Sequence[Stage],
    partitions: int | None,
    rebaseline: bool,
    rest: float | None,
    metrics: tuple[str, int] | None,
) -> int:
    from eventhub.lake.place import Lake
    from eventhub.pipeline.lazy_spark import LazySpark
    from eventhub.pipeline.running import STAGES, Pipeline

    settings = options.load_for_database().settings
    progress = Progress(quiet=options.json)
    spark = LazySpark(options.session, progress)
    async with open_existing(settings) as store, _measured(store, metrics) as count:
        pipeline = Pipeline(
            store,
            Lake(settings.lake),
            spark=spark,
            teller=progress,
            stages=only or STAGES,
            partitions=partitions,
            rebaseline=rebaseline,
        )
        signals = _end_by_signal(pipeline)

        def shown(done: Run | Exception) -> None:
            count(done)
            if isinstance(done, Exception):
                progress.say(f"{done} The next run will try again.")
            elif options.json:
                sys.stdout.write(msgspec.json.encode(_told(done)).decode() + "\n")
                sys.stdout.flush()

        try:
            if rest is not None:
                await pipeline.again_and_again(rest, shown)
                return INTERRUPTED if signal.SIGINT in signals else 0
            done = await pipeline.once()
            count(done)
        finally:
            progress.close()
            await asyncio.to_thread(spark.stop)
    _print(done, json=options.json)
    return 0 if done.finished else INTERRUPTED


@asynccontextmanager
async def _measured(store: Store, place: tuple[str, int] | None) -> AsyncIterator[Callable[[Run | Exception], None]]:
    """Numbers for Prometheus as long as this lasts, if they are wanted; gives what is to be told of each run."""
    if place is None:
        yield lambda _: None
        return
    try:
        from eventhub.pipeline.metrics import PipelineMetrics
    except ImportError as error:
        raise SettingsError("--metrics-port needs one more package: pip install prometheus-client.") from error
    metrics = PipelineMetrics(store)
    host, port = place
    try:
        metrics.serve(port, host)
    except OSError as error:
        raise SettingsError(f"--metrics-port {port} on {host} cannot be used: {error.strerror}.") from error
    looking = asyncio.create_task(metrics.keep_looking())
    try:
        yield metrics.count
    finally:
        looking.cancel()


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
