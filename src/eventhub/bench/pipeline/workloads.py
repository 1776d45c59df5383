"""What is measured of the pipeline: copying, reading, a first run and a later one, rolling up, publishing, growth."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from eventhub.bench.figures import Sample
from eventhub.bench.pipeline.copying import copying, history
from eventhub.bench.pipeline.reading import reading
from eventhub.bench.pipeline.stage import UNTIL, WARM_UP, driver_memory, fill, forget_copies, open_stage
from eventhub.bench.workloads import Context, Measure, Workload
from eventhub.pipeline.extraction import Extraction
from eventhub.pipeline.frames import frame
from eventhub.store import open_store

if TYPE_CHECKING:
    from eventhub.bench.pipeline.stage import Stage
    from eventhub.lake.place import Lake

__all__ = ["pipeline_workloads"]

NEW_SHARE: Final = 100
"""One event of how many comes later, for the second run."""
PUBLISH_SHARE: Final = 5
ROLLED: Final = 5
"""Entries of the log that are rolled up, for each event."""
GROWTH: Final = {"small": 0.1, "whole": 1.0, "large": 5.0}


def pipeline_workloads(context: Context) -> list[Workload]:
    """Everything that can be measured of the pipeline on this engine, in the order of a round."""
    events = context.settings.events
    new = max(events // NEW_SHARE, 1)
    return [
        copying(context, 1),
        copying(context, 2),
        reading(context, 1),
        reading(context, 2),
        _plain("pipeline-first", f"first run, {events:,} events", _first),
        _plain("pipeline-again", f"run with {new:,} new events", _again),
        _plain("pipeline-rollup", f"rollup of {ROLLED * events:,} log rows, warm", _rollup),
        Workload(
            name="pipeline-publish",
            title=f"publish from Spark, {max(events // PUBLISH_SHARE, 1):,} rows",
            unit="events/s",
            ours=_publish,
            raw=None,
        ),
        *(
            _plain(f"pipeline-growth-{name}", f"first run, {max(int(events * share), 1):,} events", _growth(share))
            for name, share in GROWTH.items()
        ),
    ]


def _plain(name: str, title: str, measure: Measure) -> Workload:
    return Workload(name=name, title=title, unit="s", ours=measure, raw=None)


# ---------------------------------------------------------------------- runs


async def _warm_stage(context: Context) -> Stage:
    """A Spark that has done everything once."""
    stage = await open_stage(context)

    async def run() -> None:
        async with context.databases.fresh() as url, stage.lake() as lake:
            await fill(url, WARM_UP)
            await stage.run(url, lake)

    await stage.once("run", run)
    return stage


async def _first(context: Context) -> Sample:
    stage, url = await _warm_stage(context), await history(context)
    await forget_copies(url)
    async with stage.lake() as lake:
        return await _timed_run(stage, url, lake)


async def _again(context: Context) -> Sample:
    """A run after the first one, with some new events."""
    stage = await _warm_stage(context)
    async with context.databases.fresh() as url, stage.lake() as lake:
        await fill(url, context.settings.events)
        await stage.run(url, lake)
        new = max(context.settings.events // NEW_SHARE, 1)
        await fill(url, new, seed=1, until=UNTIL + timedelta(hours=2), days=1 / 24)
        return await _timed_run(stage, url, lake)


def _growth(share: float) -> Measure:
    async def measure(context: Context) -> Sample:
        stage = await _warm_stage(context)
        events = max(int(context.settings.events * share), 1)
        async with context.databases.fresh() as url, stage.lake() as lake:
            await fill(url, events)
            sample = await _timed_run(stage, url, lake)
            return Sample(sample.value, {**sample.more, "events /s": events / sample.value})

    return measure


async def _timed_run(stage: Stage, url: str, lake: Lake) -> Sample:
    driver_memory(stage.spark)
    began = perf_counter()
    run = await stage.run(url, lake)
    took = perf_counter() - began
    shown = {f"{name} s": seconds for name, seconds in run.seconds.items()}
    return Sample(took, {**shown, **driver_memory(stage.spark)})


# -------------------------------------------------------------------- rollup


async def _rollup(context: Context) -> Sample:
    """By hour, worker and action: how many, and percentiles of the time that they took; the second time counts."""
    stage, url = await open_stage(context), await history(context)
    await forget_copies(url)
    async with stage.lake() as lake, open_store(url) as store:
        await Extraction(store, lake, spark=lambda: stage.spark).extract("event_log")
        rolled = stage.spark.sql(ROLLUP, log=_enough(stage.spark, lake, ROLLED * context.settings.events))

        def roll() -> float:
            began = perf_counter()
            rolled.write.format("noop").mode("overwrite").save()
            return perf_counter() - began

        await asyncio.to_thread(roll)
        return Sample(await asyncio.to_thread(roll))


def _enough(spark: Any, lake: Lake, rows: int) -> Any:
    """So many rows of the log, some of them more than once."""
    table = lake.dataset("event_log")
    known = int(table.describe()["rows"])
    log = frame(spark, table, columns=["id", "action", "worker", "execution_ms", "created_at"])
    whole, left = divmod(rows, known)
    parts = [log] * whole + ([log.where(f"id <= {left}")] if left else [])
    found = parts[0]
    for part in parts[1:]:
        found = found.unionAll(part)
    return found


ROLLUP: Final = """
SELECT *, CASE WHEN kll_sketch_get_n_bigint(times) > 0
               THEN kll_sketch_get_quantile_bigint(times, array(0.5, 0.9, 0.99)) END AS percentiles FROM (
  SELECT date_trunc('hour', created_at) AS hour, worker, action, count(*) AS entries,
         kll_sketch_agg_bigint(cast(execution_ms AS bigint)) AS times
  FROM {log} GROUP BY ALL)
"""


# ------------------------------------------------------------------- publish


async def _publish(context: Context) -> Sample:
    stage = await open_stage(context)
    count = max(context.settings.events // PUBLISH_SHARE, 1)
    made = stage.spark.range(0, count, 1, stage.cores).selectExpr(
        "'bench.event' AS type",
        "to_json(named_struct('number', id, 'text', repeat('x', 100))) AS payload",
    )

    def publish(url: str, idempotency: str, made: Any = made) -> float:
        writing = made.write.format("eventhub").mode("append").options(url=url, idempotency=idempotency)
        began = perf_counter()
        writing.save()
        return count / (perf_counter() - began)

    async def before() -> None:
        async with context.databases.fresh() as url:
            publish(url, "derived", made.limit(WARM_UP))

    await stage.once("publish", before)
    async with context.databases.fresh() as url:
        keyed = publish(url, "derived")
    async with context.databases.fresh() as url:
        plain = publish(url, "none")
    return Sample(keyed, {"without keys /s": plain})
