"""Reading the log of a hub into Spark by ``format("eventhub")``, beside Spark's own JDBC source that reads the same.

Every column of every row comes to Spark and goes nowhere: what is measured is the source alone.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventhub.bench.figures import Sample
from eventhub.bench.pipeline.copying import beside_jdbc, compared, entries, history
from eventhub.bench.pipeline.jdbc import read_by_jdbc
from eventhub.bench.pipeline.stage import open_stage
from eventhub.bench.workloads import Context, Workload

if TYPE_CHECKING:
    from eventhub.bench.pipeline.stage import Stage

__all__ = ["reading"]


def reading(context: Context, partitions: int) -> Workload:
    """The workload with so many tasks."""
    beside = compared(context)

    async def ours(context: Context) -> Sample:
        stage, rows = await open_stage(context), await entries(context)
        await stage.once("read", lambda: _warm_up(context, stage, with_jdbc=beside))
        return Sample(await _rate(_by_eventhub(stage, await history(context), partitions), rows))

    async def raw(context: Context) -> Sample:
        stage, rows = await open_stage(context), await entries(context)
        return Sample(await _rate(await _by_jdbc(context, stage, partitions), rows))

    return beside_jdbc(context, "read", "log into Spark", partitions, ours=ours, raw=raw)


async def _warm_up(context: Context, stage: Stage, *, with_jdbc: bool) -> None:
    """Both sides have done it before."""
    for partitions in (1, 2):
        await _rate(_by_eventhub(stage, await history(context), partitions), 1)
        if with_jdbc:
            await _rate(await _by_jdbc(context, stage, partitions), 1)


def _by_eventhub(stage: Stage, url: str, partitions: int) -> Any:
    options = {"url": url, "table": "event_log", "partitions": partitions}
    return stage.spark.read.format("eventhub").options(**options).load()


async def _by_jdbc(context: Context, stage: Stage, partitions: int) -> Any:
    reachable = context.databases.network_url(await history(context))
    return read_by_jdbc(stage.spark, reachable, partitions=partitions, last_id=await entries(context))


async def _rate(frame: Any, rows: int) -> float:
    """Rows a second; how many there are is known."""
    writing = frame.write.format("noop").mode("overwrite")
    began = perf_counter()
    await asyncio.to_thread(writing.save)
    return rows / (perf_counter() - began)
