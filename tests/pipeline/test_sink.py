"""``write`` and ``writeStream`` to ``eventhub``: rows become events, once however often they are tried."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from eventhub.pipeline.source import sink
from eventhub.pipeline.source.options import WriteOptions
from tests.pipeline.support import numbered, publish


@pytest.fixture
def store_url(store_url: str) -> str:
    """A hub that is there: tasks make none."""
    publish(store_url, [])
    return store_url


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("'made' AS type", "to_json(named_struct('n', id % 10)) AS payload")


def save(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("eventhub").mode("append").options(url=url, **options).save()


def read(spark: SparkSession, url: str) -> DataFrame:
    return spark.read.format("eventhub").options(url=url).load()


def test_rows_become_events_even_those_that_say_the_same(spark: SparkSession, store_url: str) -> None:
    save(rows(spark, 100).repartition(3), store_url, queue="q", maxAttempts=4)
    found = read(spark, store_url)
    assert found.groupBy("queue", "type", "payload").count().where("count = 10").count() == 10


def test_a_run_that_is_repeated_publishes_what_is_missing(spark: SparkSession, store_url: str) -> None:
    made = spark.createDataFrame([("a", str(number)) for number in range(20)], "type string, payload string")
    save(made.limit(20).coalesce(1), store_url, run="nightly")
    save(made.limit(20).coalesce(1), store_url, run="nightly", batch=7)
    assert read(spark, store_url).count() == 20
    save(made.limit(20).coalesce(1), store_url)
    assert read(spark, store_url).count() == 40
    for parts in (1, 3):
        save(made.repartition(parts), store_url, run="weekly", idempotency="distinct")
        assert read(spark, store_url).count() == 60


def test_a_column_can_be_the_idempotency_key(spark: SparkSession, store_url: str) -> None:
    made = spark.createDataFrame([("a", "1", "k1"), ("a", "2", "k2")], "type string, payload string, order_id string")
    save(made, store_url, idempotency="order_id")
    save(made, store_url, idempotency="order_id")
    assert {row.idempotency_key for row in read(spark, store_url).collect()} == {"k1", "k2"}


def test_all_that_an_event_can_carry(spark: SparkSession, store_url: str) -> None:
    made = spark.sql(
        """SELECT 'a' AS type, '{"x":1}' AS payload, map('k', 'v') AS metadata, array('b', 'c') AS tags, 'T' AS title,
           'D' AS description, 'o' AS ordering_key, 'i' AS idempotency_key, 2 AS priority,
           timestamp'2030-01-01' AS deliver_at
           UNION ALL SELECT 'a', 'null', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"""
    )
    save(made, store_url)
    bare, full = read(spark, store_url).orderBy("title").collect()
    assert (full.payload, full.metadata, full.tags, full.priority) == ('{"x":1}', '{"k":"v"}', "b,c", 2)
    assert (full.title, full.ordering_key, full.idempotency_key) == ("T", "o", "i")
    assert (bare.payload, bare.metadata, bare.tags, bare.priority) == ("null", None, None, 0)


def task(url: str, texts: Sequence[str], place: str, partition: int, **options: Any) -> tuple[int, int]:
    """What a task does with rows that say these payloads: how many there were, and how many were there before."""
    batch = pa.RecordBatch.from_pylist([{"type": "a", "payload": text} for text in texts])
    done = sink._publish([batch], WriteOptions(url=url, **options), place, partition)
    return done.events, done.duplicates


def test_a_task_that_is_tried_again_in_another_order_makes_no_doubles(store_url: str) -> None:
    publish(store_url, [])
    assert task(store_url, "12", "query/x/7", 0) == (2, 0)
    assert task(store_url, "121", "query/x/7", 0) == (3, 2)
    assert task(store_url, "211", "query/x/7", 0) == (3, 3)
    assert task(store_url, "121", "query/x/8", 0) == (3, 0)


def test_rows_that_say_the_same_in_other_partitions_are_events_of_their_own(store_url: str) -> None:
    publish(store_url, [])
    parts = {0: "112", 1: "123"}
    assert [task(store_url, texts, "query/x/7", part) for part, texts in parts.items()] == [(3, 0), (3, 0)]
    assert [task(store_url, texts, "query/x/7", part) for part, texts in parts.items()] == [(3, 3), (3, 3)]


def test_distinct_rows_are_published_once_however_they_are_shared_out(store_url: str) -> None:
    publish(store_url, [])
    assert task(store_url, "123", "run/x", 0, idempotency="distinct") == (3, 0)
    assert task(store_url, "345", "run/x", 1, idempotency="distinct") == (3, 1)
    assert task(store_url, "123456", "run/x", 7, idempotency="distinct") == (6, 5)
    assert task(store_url, "123456", "run/y", 7, idempotency="distinct") == (6, 0)


def test_places_with_long_names_are_told_apart_to_their_beginnings(sqlite_path: Path) -> None:
    publish(str(sqlite_path), [])
    for beginning in ("monday", "tuesday"):
        assert task(str(sqlite_path), "12", f"run/{beginning}{'-' * 80}", 0) == (2, 0)


def test_a_stream_publishes_each_epoch_once_even_when_it_is_repeated(
    spark: SparkSession, store_url: str, tmp_path: Path
) -> None:
    publish(store_url, numbered(300))
    checkpoint = tmp_path / "checkpoint"

    def run(parts: int) -> None:
        options = {"url": store_url, "columns": "type,queue", "partitions": str(parts)}
        source = spark.readStream.format("eventhub").options(**options).load()
        derived = source.where("queue = 'default'").selectExpr("concat('derived.', type) AS type", "'0' AS payload")
        sinking = derived.writeStream.format("eventhub").options(url=store_url, queue="derived")
        sinking.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    run(2)
    assert read(spark, store_url).where("queue = 'derived'").count() == 300
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()  # as if Spark had died between writing and committing
    run(3)  # as on a machine with more cores, and the table has grown
    assert read(spark, store_url).where("queue = 'derived'").count() == 300


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("'a' AS type", {}, "The rows have no column payload"),
        ("'a' AS type, '1' AS payload, 1 AS more", {}, "columns that an event has not: more"),
        ("'a' AS type, struct(1) AS payload", {}, "make JSON of it with to_json"),
        ("'a' AS type, '1' AS payload", {"idempotency": "key"}, "there is no such column of strings"),
        ("'a' AS type, '1' AS payload", {"work": "false"}, "nobody would get the events"),
        ("'a' AS type, '{' AS payload", {}, "payload is not JSON"),
        ("'a b' AS type, '1' AS payload", {}, "is not usable"),
    ],
)
def test_rows_that_cannot_be_events_are_refused(
    spark: SparkSession, sqlite_path: Path, columns: str, options: dict[str, str], words: str
) -> None:
    publish(str(sqlite_path), [])
    with pytest.raises(PySparkException) as raised:
        save(spark.range(1).selectExpr(*columns.split(", ")), str(sqlite_path), **options)
    assert words in str(raised.value)


def test_events_cannot_be_overwritten(spark: SparkSession, sqlite_path: Path) -> None:
    publish(str(sqlite_path), [])
    with pytest.raises(PySparkException, match=r"use mode\('append'\)"):
        rows(spark, 1).write.format("eventhub").mode("overwrite").options(url=str(sqlite_path)).save()
