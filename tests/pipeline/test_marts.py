"""Marts as pure functions: what is counted for whom, how hours become days, and what was open at their end."""

from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.pipeline.facts.deliveries import deliveries_of
from eventhub.pipeline.facts.stories import stories
from eventhub.pipeline.marts.depth import flows, queue_depth
from eventhub.pipeline.marts.measures import daily, hourly, measured, merged
from eventhub.pipeline.marts.rankings import dead_triage, hot_keys
from tests.pipeline.histories import BEGAN, History, at, batch

pytestmark = pytest.mark.timeout(300)

HOUR, NEXT_DAY = 3600, 5400
"""The history begins at half past ten in the evening."""


def history() -> History:
    """Two hours and the first of the next day."""
    made = History()
    for event in range(1, 5):
        made.publish(event, 0, type="kind.a" if event < 4 else "kind.b", tags=" red ,blue,red" if event == 1 else None)
        made.attempt(event, 1, "COMPLETED", (event, event * 3), worker="ann")
    made.publish(5, HOUR, queue="mail", ordering_key="k")  # dies in the next hour
    made.attempt(5, 1, "FAILED", (HOUR + 1, HOUR + 2), error="boom 1")
    made.attempt(5, 2, "ABANDONED", (HOUR + 3, NEXT_DAY), error="Abandoned: w did not report before its lease ended.")
    made.bury(5, 2, NEXT_DAY)
    made.publish(6, HOUR, ordering_key="k")  # stays open
    made.publish(7, HOUR)  # only broadcast: never was in a queue
    made.attempt(7, 1, "COMPLETED", (HOUR + 1, HOUR + 9), delivery=70, subscriber=12, worker="sender")
    made.publish(8, HOUR)  # nobody wants it
    made.tell(8, "COMPLETED", HOUR, attempt=0)
    return made


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> DataFrame:
    made = history()
    log, events = (
        spark.createDataFrame(pa.Table.from_batches([batch(dataset, rows)]))  # type: ignore[arg-type]
        for dataset, rows in (("event_log", made.log), ("events", made.events))
    )
    return stories(log, events).persist()


COUNTS = ["published", "attempts", "succeeded", "failed", "abandoned", "retries", "completed", "dead", "cancelled"]


def without_sketches(days: DataFrame) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = days.drop("wait_sketch", "duration_sketch", "latency_sketch").collect()
    return {(str(row.day), row.dimension, row.name): row.asDict() for row in rows}


def test_hours_are_counted_for_all_who_are_named_in_them(told: DataFrame) -> None:
    rows = measured(hourly(told)).collect()
    found = {((row.hour.astimezone(UTC) - BEGAN).total_seconds() // HOUR, row.dimension, row.name): row for row in rows}
    counts = {key: [row[name] for name in COUNTS] for key, row in found.items()}
    assert {key: value for key, value in counts.items() if key[0] == -1} == {
        (-1, "all", ""): [4, 4, 4, 0, 0, 0, 4, 0, 0],
        (-1, "queue", "work"): [4, 4, 4, 0, 0, 0, 4, 0, 0],
        (-1, "type", "kind.a"): [3, 3, 3, 0, 0, 0, 3, 0, 0],
        (-1, "type", "kind.b"): [1, 1, 1, 0, 0, 0, 1, 0, 0],
        (-1, "tag", "red"): [1, 1, 1, 0, 0, 0, 1, 0, 0],
        (-1, "tag", "blue"): [1, 1, 1, 0, 0, 0, 1, 0, 0],
        (-1, "worker", "ann"): [0, 4, 4, 0, 0, 0, 4, 0, 0],
    }
    assert counts[0, "all", ""] == [4, 2, 1, 1, 0, 0, 1, 0, 0]
    assert counts[0, "subscriber", "12"] == [0, 1, 1, 0, 0, 0, 1, 0, 0]
    assert counts[1, "queue", "mail"] == [0, 1, 0, 0, 1, 1, 0, 1, 0]
    first, second, third = (found[hour, "all", ""] for hour in (-1, 0, 1))
    assert [first.failure_rate, second.failure_rate, third.failure_rate] == [0, 0.5, 1]
    assert (first.wait_p50, first.wait_p99, first.duration_p50, first.latency_p99) == (2000, 4000, 4000, 12_000)
    assert (third.wait_p50, third.duration_p90, third.latency_p50, third.latency_sketch) == (None, None, None, None)
    assert [str(row.day) for row in (first, second, third)] == ["2026-03-01", "2026-03-01", "2026-03-02"]
    seen = found[1, "worker", "w"].last_seen.astimezone(UTC)
    assert seen == at(HOUR + 3), "what was abandoned was not reported by its worker"


def test_hours_merge_into_what_counting_at_once_gives_and_what_is_taken_back_is_gone(told: DataFrame) -> None:
    early, late = F.col("event_id") < 3, F.col("event_id") >= 3
    parts = hourly(told.where(early)).unionByName(hourly(told.where(late)))
    back = hourly(told.where("settles AND action = 'DEAD'").withColumns({"sign": F.lit(-1), "ends": F.lit(1) == 0}))
    whole = without_sketches(daily(hourly(told)))
    assert {key for key, row in whole.items() if row["dead"]} >= {("2026-03-02", "all", "")}
    expected = {key: {**row, "dead": 0} for key, row in whole.items()}
    assert without_sketches(daily(merged(parts.unionByName(back)))) == expected


def test_the_depth_is_what_entered_and_has_not_left(told: DataFrame) -> None:
    rows = queue_depth(flows(told)).orderBy("queue", "hour").collect()
    assert [(row.queue, row.hour.astimezone(UTC).hour, row.entered, row.left, row.depth) for row in rows] == [
        ("mail", 23, 1, 0, 1),
        ("mail", 0, 0, 1, 0),
        ("work", 22, 4, 4, 0),
        ("work", 23, 1, 0, 1),
    ]


def test_the_dead_are_told_by_what_they_died_of_and_keys_by_how_busy_they_are(told: DataFrame) -> None:
    settled = deliveries_of(told).persist()
    (dead,) = dead_triage(settled).collect()
    assert (dead.reason, dead.dead, dead.event_ids, dead.types) == ("retries_exhausted", 1, [5], ["a"])
    assert dead.example_error.startswith("Abandoned: w")
    assert dead.first_at.astimezone(UTC) == dead.last_at.astimezone(UTC) == at(NEXT_DAY)
    (key,) = hot_keys(settled).collect()
    assert (key.queue, key.ordering_key, key.deliveries, key.failures, key.dead) == ("mail", "k", 1, 1, 1)
    assert (key.longest_wait_ms, key.longest_total_ms) == (1000, (NEXT_DAY - HOUR) * 1000)
