"""Runs of the pipeline: all stages in their order, by one at a time, stopped between two steps and gone on with."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eventhub.errors import StoreBusy, StoreUnavailable
from eventhub.lake.place import Lake
from eventhub.lake.standing import standing
from eventhub.lake.tidying import MANY
from eventhub.pipeline.frames import frame
from eventhub.pipeline.metrics import PipelineMetrics
from eventhub.pipeline.running import Pipeline, Run
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from tests.pipeline.support import finish, numbered

MINUTE = timedelta(minutes=1)


class Told:
    """Keeps what it is told, and stops the pipeline at a step, if there is one to stop it at."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.words: list[str] = []
        self.last: str | None = None
        self.pipeline: Pipeline | None = None

    def begin(self, step: str) -> None:
        self.steps.append(step)
        if step == self.last and self.pipeline is not None:
            self.pipeline.stop.set()

    def note(self, doing: str) -> None:
        self.notes.append(doing)

    def end(self, words: str) -> None:
        self.words += [words] * bool(words)


@pytest.fixture
async def store(sqlite_path: Path) -> AsyncIterator[Store]:
    async with open_store(str(sqlite_path)) as store:
        await store.publish(Composer("default").many(numbered(20)))
        await finish(store, 10)
        yield store


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def no_spark() -> SparkSession:
    raise AssertionError("there is nothing to do for Spark")


async def test_a_run_brings_everything_up_to_date_and_the_next_needs_no_spark(
    store: Store, lake: Lake, spark: SparkSession
) -> None:
    told = Told()
    done = await Pipeline(store, lake, spark=lambda: spark, teller=told).once()
    assert (done.finished, done.rows) == (True, 60)
    assert [one.dataset for one in done.copied] == ["events", "event_log", "audit"]
    assert list(done.seconds) == ["copy", "derive", "tidy"]
    paths = [one.path for one in done.derived]
    assert {"facts/attempts", "facts/deliveries"} <= set(paths)
    assert told.notes[-1] == f"making {paths[-1]}"
    assert told.words[:2] == ["20 rows of events copied", "40 rows of event_log copied"]
    assert frame(spark, lake.table("facts/deliveries")).count() == 10
    again = await Pipeline(store, lake, spark=no_spark, teller=told).once()
    assert (again.finished, again.rows, again.derived) == (True, 0, [])

    found = await standing(store, lake)
    assert [(one.dataset, one.lag_rows, one.copies, one.last_rows) for one in found.datasets] == [
        ("events", 0, 1, 20),
        ("event_log", 0, 1, 40),
        ("audit", 0, 0, None),
    ]
    assert [one.position for one in found.datasets[:2]] == [one.horizon for one in found.datasets[:2]]
    assert {one.table: one.rows for one in found.tables}["facts/deliveries"] == 10
    assert (found.running, found.horizon_age_seconds) == (None, None)
    assert found.last_run_at is not None


async def test_who_stops_it_between_two_steps_loses_nothing(store: Store, lake: Lake) -> None:
    told = Told()
    told.last = "copying events"
    pipeline = Pipeline(store, lake, spark=no_spark, teller=told)
    told.pipeline = pipeline
    done = await pipeline.once()
    assert (done.finished, [one.dataset for one in done.copied]) == (False, ["events"])
    assert not lake.dataset("event_log").exists
    done = await Pipeline(store, lake, spark=no_spark, teller=Told(), stages=("copy",)).once()
    assert (done.finished, done.rows) == (True, 40)


async def test_one_runs_at_a_time_and_the_other_tries_again_later(store: Store, lake: Lake) -> None:
    told = Told()
    first = Pipeline(store, lake, spark=no_spark, teller=told, stages=("copy",))
    second = Pipeline(store, lake, spark=no_spark, teller=Told(), stages=("copy",))
    both = await asyncio.gather(first.once(), second.once(), return_exceptions=True)
    assert sorted(type(one).__name__ for one in both) == ["Run", "StoreBusy"]
    seen: list[Run | Exception] = []

    def done(one: Run | Exception) -> None:
        seen.append(one)
        if len(seen) == 1:
            releasing.set()
        elif isinstance(one, Run):
            second.stop.set()

    releasing = asyncio.Event()
    fence = await store.take_lock("pipeline", "somebody elsewhere", MINUTE)
    assert fence is not None
    repeating = asyncio.create_task(second.again_and_again(0.0, done))
    await releasing.wait()
    assert (await standing(store, lake)).running is not None
    await store.drop_lock("pipeline", fence)
    await asyncio.wait_for(repeating, 30)
    assert isinstance(seen[0], StoreBusy)
    assert isinstance(seen[-1], Run)


async def test_a_lake_that_is_away_ends_no_more_than_one_run(store: Store, lake: Lake) -> None:
    in_the_way = Path(lake.url)
    in_the_way.write_text("no directory")  # noqa: ASYNC240 - nobody waits
    pipeline = Pipeline(store, lake, spark=no_spark, teller=Told(), stages=("copy",))
    seen: list[Run | Exception] = []

    def done(one: Run | Exception) -> None:
        seen.append(one)
        in_the_way.unlink() if len(seen) == 1 else pipeline.stop.set()

    await asyncio.wait_for(pipeline.again_and_again(0.0, done), 30)
    assert isinstance(seen[0], StoreUnavailable)
    assert str(seen[0]).startswith(f"The lake {lake.url} cannot be used (")
    assert isinstance(seen[1], Run)
    assert (seen[1].finished, seen[1].rows) == (True, 60)


async def test_days_with_many_small_files_are_put_together(store: Store, lake: Lake) -> None:
    pipeline = Pipeline(store, lake, spark=no_spark, teller=Told(), stages=("copy", "tidy"))
    merged = 0
    for number in range(MANY):
        await store.publish(Composer("default").many(numbered(2)))
        done = await pipeline.once()
        merged += sum(one.merged for one in done.tidied)
        assert bool(merged) == (number == MANY - 1)
    table = lake.dataset("events")
    assert (merged, table.describe()["files"], table.describe()["rows"]) == (2 * MANY, 1, 20 + 2 * MANY)
    await store.publish(Composer("default").many(numbered(2)))
    assert (await pipeline.once()).rows == 4  # it goes on from where it was


async def test_numbers_for_prometheus(store: Store, lake: Lake) -> None:
    metrics = PipelineMetrics(store)
    await metrics.look()

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"eventhub_pipeline_{name}", labels)

    assert (value("lag_rows", dataset="event_log"), value("horizon_age_seconds")) == (40, 0)
    pipeline = Pipeline(store, lake, spark=no_spark, teller=Told(), stages=("copy",))
    metrics.count(await pipeline.once())
    metrics.count(StoreBusy("busy"))
    await metrics.look()
    assert value("rows_copied_total", dataset="events") == 20
    assert (value("lag_rows", dataset="events"), value("lag_seconds", dataset="events")) == (0, 0)
    assert (value("runs_total", outcome="finished"), value("runs_total", outcome="failed")) == (1, 1)
    assert (value("stage_seconds", stage="copy") or 0) > 0
    assert (value("last_success_timestamp_seconds") or 0) > 0
