"""Copying the log of a hub to a fresh lake, beside Spark's own JDBC source that writes the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from eventhub.bench.figures import Sample
from eventhub.bench.pipeline.jdbc import copy_by_jdbc
from eventhub.bench.pipeline.stage import (
    JAR_VARIABLE,
    WARM_UP,
    fill,
    forget_copies,
    jdbc_jar,
    log_extent,
    open_stage,
)
from eventhub.bench.workloads import Context, Measure, Workload
from eventhub.errors import StoreError
from eventhub.pipeline.extraction import Extraction
from eventhub.store import open_store

if TYPE_CHECKING:
    from eventhub.bench.pipeline.stage import Stage

__all__ = ["beside_jdbc", "check_rows", "compared", "copying", "entries", "history"]

JDBC: Final = "Spark's JDBC source"
_MISSING: Final = (
    "nothing beside it: Spark needs PostgreSQL's driver for Java, apt-get install libpostgresql-jdbc-java, "
    f"or {JAR_VARIABLE}=…/postgresql.jar"
)
_UNREACHABLE: Final = "nothing beside it: Java knows no Unix sockets; give --db a server with a host name"
WARM_SHARE: Final = 5
"""Both sides copy one of so many events before: Java is slow until it has seen enough rows."""
_entries: dict[str, int] = {}
"""How long the logs of these hubs are."""


async def history(context: Context) -> str:
    """A hub with the whole history, made once for all that only read it; over TCP, as the other side comes."""

    async def prepare(url: str) -> None:
        _entries[context.databases.network_url(url)] = (await fill(url, context.settings.events)).entries

    return context.databases.network_url(await context.keep("pipeline", prepare))


async def entries(context: Context) -> int:
    """How many rows the log of that history has."""
    return _entries[await history(context)]


def compared(context: Context) -> bool:
    """Whether Spark's JDBC source can take part."""
    return context.engine == "postgres" and context.databases.on_network and jdbc_jar() is not None


def _why_alone(context: Context) -> str:
    """Why it does not take part, and what to do about it."""
    if context.engine != "postgres" or compared(context):
        return ""
    return _MISSING if context.databases.on_network else _UNREACHABLE


def copying(context: Context, partitions: int) -> Workload:
    """The workload with so many tasks."""
    beside = compared(context)

    async def warm(context: Context) -> Stage:
        stage = await open_stage(context)
        await stage.once("copy", lambda: _warm_up(context, stage, with_jdbc=beside))
        return stage

    async def ours(context: Context) -> Sample:
        return Sample(await _copied(await warm(context), await history(context), partitions))

    async def raw(context: Context) -> Sample:
        return Sample(await _copied_by_jdbc(await warm(context), await history(context), partitions))

    parts = "1 part, ours without a task of Spark" if partitions == 1 else f"{partitions} tasks"
    return beside_jdbc(context, "copy", "log to the lake", partitions, parts, ours=ours, raw=raw)


def beside_jdbc(
    context: Context, verb: str, title: str, partitions: int, parts: str, *, ours: Measure, raw: Measure
) -> Workload:
    """A workload of so many parts, beside Spark's JDBC source where that can take part."""
    return Workload(
        name=f"pipeline-{verb}-{partitions}",
        title=f"{title}, {parts}",
        unit="rows/s",
        ours=ours,
        raw=raw if compared(context) else None,
        beside=JDBC,
        note=_why_alone(context),
    )


async def _warm_up(context: Context, stage: Stage, *, with_jdbc: bool) -> None:
    """Both sides have done as much of it before, whoever is asked first."""
    async with context.databases.fresh() as socket:
        url = context.databases.network_url(socket)
        _entries[url] = (await fill(url, max(context.settings.events // WARM_SHARE, WARM_UP))).entries
        for partitions in (1, 2):
            await _copied(stage, url, partitions)
            if with_jdbc:
                await _copied_by_jdbc(stage, url, partitions)


async def _copied(stage: Stage, url: str, partitions: int) -> float:
    """Rows a second."""
    await forget_copies(url)
    async with stage.lake() as lake, open_store(url) as store:
        extraction = Extraction(store, lake, spark=lambda: stage.spark, partitions=partitions)
        began = perf_counter()
        copied = await extraction.extract("event_log")
        took = perf_counter() - began
    check_rows("Event Hub copied", copied.rows, _entries[url])
    return copied.rows / took


async def _copied_by_jdbc(stage: Stage, url: str, partitions: int) -> float:
    """Rows a second."""
    extent = await log_extent(url)
    async with stage.lake() as lake:
        to = Path(lake.url) / "event_log"
        began = perf_counter()
        await asyncio.to_thread(copy_by_jdbc, stage.spark, url, to, partitions=partitions, extent=extent)
        took = perf_counter() - began
        rows = await asyncio.to_thread(lambda: stage.spark.read.parquet(str(to)).count())
    check_rows("Spark's JDBC source copied", rows, _entries[url])
    return float(rows) / took


def check_rows(who: str, rows: int, wanted: int) -> None:
    """A side that leaves something out is quick."""
    if rows != wanted:
        raise StoreError(f"{who} {rows:,} rows of a log that has {wanted:,}.")
