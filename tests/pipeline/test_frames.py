"""Tables of the lake as frames: what is committed is seen, what is written is not seen before its commit."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eventhub.lake.place import Lake
from eventhub.pipeline.frames import frame, write
from tests.object_store import ObjectStore

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("parts", pa.list_(pa.int64())),
        pa.field("day", pa.date32()),
    ]
)


def test_a_frame_is_written_committed_and_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the directory's name could be taken for a pattern, or for one that is written otherwise."""
    table = Lake(str(tmp_path / "größer als 100% [a] {b,c}")).derived("facts/numbers", SCHEMA)
    assert frame(spark, table).collect() == []
    made = spark.range(0, 40, 1, 2).selectExpr(
        "array(id, 7L) AS parts",
        "id",
        "timestamp_seconds(1772323200 + id * 3600) AS at",
        "to_date(timestamp_seconds(1772323200 + id * 3600)) AS day",
    )
    entries = write(made, table, name="first")
    assert sorted((entry.day, entry.rows) for entry in entries) == [
        ("2026-03-01", 24),
        ("2026-03-02", 16),
    ]
    assert frame(spark, table).collect() == []
    table.commit(entries, source="hub/facts", number=1)
    assert frame(spark, table).count() == 40
    (row,) = frame(spark, table, columns=["at", "parts", "day"], days=["2026-03-02"]).where("id = 30").collect()
    assert (row["at"].astimezone(UTC), row["parts"], str(row["day"])) == (
        datetime(2026, 3, 2, 6, tzinfo=UTC),
        [30, 7],
        "2026-03-02",
    )
    assert frame(spark, table, least={"id": 24}).count() == 16  # the files, not the rows, that have less are left out
    assert frame(spark, table, days=[]).count() == 0


def test_a_day_is_one_file_however_many_tasks_have_rows_of_it(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path / "lake")).derived("facts/numbers", SCHEMA)
    days = "timestamp_seconds(1772323200 + (id % 5) * 86400)"
    made = spark.range(0, 400, 1, 40).selectExpr("array(id) AS parts", "id", f"{days} AS at", f"to_date({days}) AS day")
    entries = write(made.persist(), table, name="spread")
    assert sorted((entry.day, entry.rows) for entry in entries) == [(f"2026-03-0{day}", 80) for day in range(1, 6)]


def test_a_frame_in_an_object_store_needs_no_jar(
    spark: SparkSession, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks are told how to reach it: their own environment was made before."""
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    table = Lake(f"s3://{object_store.bucket}/frames").derived("facts/numbers", SCHEMA)
    made = spark.range(0, 30, 1, 2).selectExpr(
        "id",
        "timestamp_seconds(1772323200 + id * 3600) AS at",
        "array(id, 7L) AS parts",
        "to_date(timestamp_seconds(1772323200 + id * 3600)) AS day",
    )
    table.commit(write(made, table, name="first"), source="hub/facts", number=1)
    read = frame(spark, table)
    assert read.orderBy("id").collect() == made.orderBy("id").collect()
    some = frame(spark, table, columns=["day", "id"], days=["2026-03-02"]).orderBy("id").collect()
    assert [(str(row["day"]), row["id"]) for row in some] == [("2026-03-02", number) for number in range(24, 30)]
