"""Reading the log of a hub into Spark by ``format("eventhub")``, beside Spark's own JDBC source that reads the same.

Every column of every row comes to Spark and goes nowhere: what is measured is the source alone.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventhub.bench.figures import Sample
from eventhub.bench.pipeline.copying import beside_jdbc, check_rows, compared, entries, history
from eventhub.bench.pipeline.jdbc import read_by_jdbc
from eventhub.bench.pipeline.stage import log_extent, open_stage
from eventhub.bench.workloads import Context, Workload

if TYPE_CHECKING:
    from eventhub.bench.pipeline.stage import Stage

__all__ = ["reading"]


def reading(context: Context, partitions: int) -> Workload:
    """The workload with so many tasks."""
    beside = compared(context)

    async def warm(context: Context) -> Stage:
        stage = await open_stage(context)
        await stage.once("read", lambda: _warm_up(context, stage, with_jdbc=beside))
        return stage

    async def ours(context: Context) -> Sample:
        frame = _by_eventhub(await warm(context), await history(context), partitions)
        return Sample(await _rate(frame, await entries(context)))

    async def raw(context: Context) -> Sample:
        frame = await _by_jdbc(await warm(context), await history(context), partitions)
        return Sample(await _rate(frame, await entries(context)))

    tasks = f"{partitions} task{'s' * (partitions > 1)}"
    return beside_jdbc(context, "read", "log into Spark", partitions, tasks, ours=ours, raw=raw)


async def _warm_up(context: Context, stage: Stage, *, with_jdbc: bool) -> None:
    """Both sides have read all of it before, whoever is asked first; and what they read were all rows."""
    url, rows = await history(context), await entries(context)
    for partitions in (1, 2):
        frames = {"Event Hub": _by_eventhub(stage, url, partitions)}
        if with_jdbc:
            frames["Spark's JDBC source"] = await _by_jdbc(stage, url, partitions)
        for who, frame in frames.items():
            await _rate(frame, rows)
            check_rows(f"{who} read", await asyncio.to_thread(frame.count), rows)


def _by_eventhub(stage: Stage, url: str, partitions: int) -> Any:
    options = {"url": url, "table": "event_log", "partitions": partitions}
    return stage.spark.read.format("eventhub").options(**options).load()


async def _by_jdbc(stage: Stage, url: str, partitions: int) -> Any:
    return read_by_jdbc(stage.spark, url, partitions=partitions, extent=await log_extent(url))


async def _rate(frame: Any, rows: int) -> float:
    """Rows a second; how many there are is known."""
    writing = frame.write.format("noop").mode("overwrite")
    began = perf_counter()
    await asyncio.to_thread(writing.save)
    return rows / (perf_counter() - began)
