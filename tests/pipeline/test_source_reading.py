"""``spark.read.format("eventhub")``: what is there, as it is, in parts, with conditions that the database checks."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.errors import EventHubError, StoreError
from eventhub.pipeline.source.database import open_database
from tests.pipeline.support import complete, numbered, publish


def load(spark: SparkSession, url: str, table: str = "events", **options: str | int) -> DataFrame:
    return spark.read.format("eventhub").options(url=url, table=table, **options).load()


def test_events_are_read_whole(spark: SparkSession, store_url: str) -> None:
    full = {
        "type": "a.type:of_its-own",
        "payload": {"ü": [1, None, 2.5], "text": "a\tb"},
        "metadata": {"k": "v"},
        "tags": "a, b",
        "title": "Title",
        "description": "words",
        "ordering_key": "key",
        "idempotency_key": "once",
        "priority": 3,
    }
    before = datetime.now(UTC) - timedelta(seconds=60)
    ids = publish(store_url, [full, {"type": "plain", "payload": None}])
    first, second = load(spark, store_url).orderBy("id").collect()
    assert first.id == ids[0]
    assert first.payload == '{"ü":[1,null,2.5],"text":"a\\tb"}'
    assert first.metadata == '{"k":"v"}'
    assert (first.type, first.tags, first.title, first.description) == (full["type"], "a, b", "Title", "words")
    assert (first.ordering_key, first.idempotency_key, first.queue, first.priority) == ("key", "once", "default", 3)
    assert first.route_tags == "a,b"
    assert first.created_at.astimezone(UTC) > before
    assert first.position > 0
    assert second.payload == "null"
    assert [second.metadata, second.tags, second.title, second.ordering_key] == [None] * 4


def test_the_log_is_read_whole(spark: SparkSession, store_url: str) -> None:
    publish(store_url, numbered(5))
    complete(store_url, 3)
    rows = load(spark, store_url, "event_log").groupBy("action").count().collect()
    assert {row["action"]: row["count"] for row in rows} == {"PUBLISHED": 5, "PICKED": 3, "COMPLETED": 3}
    done = load(spark, store_url, "event_log", columns="worker,attempt,error,execution_ms,action").where(
        "action = 'COMPLETED'"
    )
    assert {(row.worker, row.attempt, row.error) for row in done.collect()} == {("w", 1, None)}


def test_an_empty_table_has_no_rows(spark: SparkSession, store_url: str) -> None:
    publish(store_url, [])
    assert load(spark, store_url, partitions=3).count() == 0


def test_parts_are_read_by_tasks_of_their_own_and_give_each_row_once(spark: SparkSession, store_url: str) -> None:
    ids = publish(store_url, numbered(2000, title="x" * 200))
    complete(store_url, 500)
    events = load(spark, store_url, columns="id", partitions=4)
    assert events.rdd.getNumPartitions() == 4
    assert sorted(row.id for row in events.collect()) == ids
    assert len(events.select("id", F.spark_partition_id().alias("p")).groupBy("p").count().collect()) == 4
    log = load(spark, store_url, "event_log", partitions=3)
    assert log.count() == log.select("id").distinct().count() == 3000


def test_conditions_are_checked_by_the_database(spark: SparkSession, store_url: str) -> None:
    ids = publish(store_url, numbered(30))
    everything = load(spark, store_url).collect()
    middle = everything[15].created_at
    for condition in (
        F.col("id") == ids[3],
        F.col("id").isin(ids[1], ids[2], -5),
        (F.col("id") > ids[4]) & (F.col("id") <= ids[9]),
        F.col("type") == "kind.1",
        F.col("type").isin("kind.0", "it's", "back\\slash"),
        (F.col("type") >= "kind.1") & (F.col("type") < "kind.2"),
        F.col("created_at") <= F.lit(middle),
        F.col("created_at") > F.lit(datetime(1999, 1, 1, tzinfo=UTC)),
        F.col("created_at") == F.lit(middle),
    ):
        wanted = load(spark, store_url, pushdown=True).where(condition)
        assert not re.search(r"\bFilter\b", wanted._jdf.queryExecution().executedPlan().toString()), condition
        filtered = spark.createDataFrame(everything, wanted.schema).where(condition)
        assert {row.id for row in wanted.collect()} == {row.id for row in filtered.collect()}, condition


def test_conditions_on_one_load_do_not_disturb_each_other(spark: SparkSession, store_url: str) -> None:
    ids = publish(store_url, numbered(9))
    events = load(spark, store_url)
    one, other = events.where("type = 'kind.0'"), events.where("type = 'kind.1'")
    assert one.count() == 3
    assert events.count() == 9
    assert one.select("id").union(other.select("id")).count() == 6
    assert one.alias("a").join(other.alias("b"), F.expr("a.id + 1 = b.id")).count() == 3
    assert events.where(f"id = {ids[0]}").count() == 1


def test_options_narrow_what_is_read(spark: SparkSession, store_url: str) -> None:
    ids = publish(store_url, numbered(30))
    assert load(spark, store_url, types="kind.0, kind.1", firstId=ids[3], lastId=ids[8]).count() == 4
    assert load(spark, store_url, since="2999-01-01T00:00:00Z").count() == 0
    assert load(spark, store_url, since="1999-01-01T00:00:00+01:00", until="2999-01-01T00:00:00Z").count() == 30
    complete(store_url, 2)
    assert load(spark, store_url, "event_log", actions="PICKED,COMPLETED").count() == 4


def test_conditions_that_the_database_does_not_know_are_checked_by_spark(spark: SparkSession, store_url: str) -> None:
    publish(store_url, numbered(9, title="t"))
    events = load(spark, store_url)
    assert events.where("type != 'kind.1' AND title = 't' AND payload LIKE '%3%'").count() == 1
    log = load(spark, store_url, "event_log")
    assert log.where("action IN ('PUBLISHED', 'PICKED') AND worker IS NULL").count() == 9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "evnts"}, "table is 'evnts'; give one of events, event_log"),
        ({"columns": "id,nope"}, "give columns of events, each once"),
        ({"partitions": "0"}, "partitions is '0'; give a whole number from 1"),
        ({"colums": "id"}, "Unknown option colums; there are url, table, columns"),
        ({"since": "2026-01-01"}, "since is '2026-01-01'; give a time with its zone"),
        ({"actions": "DEAD"}, "events has no actions; that option is for the other table"),
        ({"start": "now"}, "start is 'now'; give one of earliest, latest"),
        ({"path": "x"}, "has no path: use .load"),
        ({"url": "mysql://x"}, "is no database: give postgresql://"),
        ({"url": ":memory:"}, "cannot share a database in memory"),
        ({"url": ""}, "The option url is missing"),
    ],
)
def test_bad_options_say_what_is_possible(options: dict[str, str], words: str) -> None:
    from eventhub.pipeline.source import EventHubSource

    source = EventHubSource({"url": "x.db", **options})
    with pytest.raises(EventHubError) as raised:
        source.streamReader(source.schema())
    assert words in str(raised.value)


def test_what_is_wrong_reaches_the_user(spark: SparkSession, sqlite_path: object, bare_postgres_url: str) -> None:
    for url, words in (
        (f"sqlite:///{sqlite_path}", "There is no file"),
        ("postgresql://me:secret@127.0.0.1:1/x", "cannot be reached"),
        (bare_postgres_url, "has no tables of eventhub"),
    ):
        with pytest.raises(PySparkException) as raised:
            load(spark, url).count()
        assert words in str(raised.value)
        assert "secret" not in str(raised.value)


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, store_url: str) -> None:
    publish(store_url, numbered(1))
    with pytest.raises(PySparkException, match="give no schema"):
        spark.read.format("eventhub").options(url=store_url).schema("id string").load().count()


def test_a_server_that_is_too_old_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    monkeypatch.setattr("eventhub.pipeline.source.postgres.OLDEST_SERVER", 99)
    source = open_database(postgres_url)
    for ask in (source.origin, lambda: source.current("events")):
        with pytest.raises(StoreError, match=r"is PostgreSQL \d\d; eventhub needs 99 or newer\. Upgrade the server\."):
            ask()
