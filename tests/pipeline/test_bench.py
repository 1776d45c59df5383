"""The pipeline's benchmark: a tiny run of what needs no derived tables; nothing is timed."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eventhub.bench import BenchSettings, run_bench
from eventhub.bench.databases import PostgresDatabases, SqliteDatabases
from eventhub.bench.pipeline import workloads
from eventhub.bench.pipeline.copying import check_rows
from eventhub.bench.pipeline.jdbc import read_by_jdbc
from eventhub.bench.pipeline.stage import JAR_VARIABLE, jdbc_jar
from eventhub.bench.settings import PIPELINE_WORKLOADS, chosen
from eventhub.bench.workloads import Context
from eventhub.cli import main
from eventhub.errors import SettingsError, StoreError

SOME = ("pipeline-copy-2", "pipeline-read-2", "pipeline-rollup", "pipeline-publish")
TINY = BenchSettings(pipeline=True, events=400, rounds=1, only=SOME)


def test_every_workload_has_its_name(tmp_path: Path) -> None:
    found = workloads.pipeline_workloads(Context(SqliteDatabases(tmp_path), TINY))
    assert tuple(workload.name for workload in found) == PIPELINE_WORKLOADS
    assert found[0].title == "log to the lake, 1 part, ours without a task of Spark"
    assert chosen((), PIPELINE_WORKLOADS) == PIPELINE_WORKLOADS[:8]
    assert chosen(("pipeline-growth",), PIPELINE_WORKLOADS) == PIPELINE_WORKLOADS[8:]


def test_figures_come_out_of_a_tiny_run(spark: SparkSession, postgres_url: str) -> None:
    async def measure() -> dict[str, float]:
        async with PostgresDatabases(postgres_url) as databases:
            result = await run_bench([databases], TINY)
            return {figure.workload: figure.ours.median for figure in result.figures}

    found = asyncio.run(measure())
    assert tuple(found) == SOME
    assert all(value > 0 for value in found.values())
    assert spark.range(1).count() == 1  # it is still there


def test_parts_of_the_other_side_are_ranges_of_time() -> None:
    asked: dict[str, object] = {}

    class Reader:
        read = property(lambda self: self)

        def format(self, name: str) -> "Reader":
            assert name == "jdbc"
            return self

        def options(self, **options: object) -> "Reader":
            asked.update(options)
            return self

        def load(self) -> str:
            return "a frame"

    extent = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 7, 23, 59, 59, 5, tzinfo=UTC))
    assert read_by_jdbc(Reader(), "postgresql://me:p%40ss@there:5433/hub", partitions=2, extent=extent) == "a frame"
    assert (asked["url"], asked["password"]) == ("jdbc:postgresql://there:5433/hub", "p@ss")
    assert (asked["partitionColumn"], asked["numPartitions"]) == ("created_at", 2)
    assert (asked["lowerBound"], asked["upperBound"]) == ("2026-01-01 00:00:00", "2026-01-08 00:00:00")


def test_a_side_that_leaves_rows_out_is_found_out() -> None:
    check_rows("Somebody read", 5, 5)
    with pytest.raises(StoreError, match="Somebody read 4 rows of a log that has 5"):
        check_rows("Somebody read", 4, 5)


def test_a_driver_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(JAR_VARIABLE, str(tmp_path / "none.jar"))
    with pytest.raises(SettingsError, match="no such file"):
        jdbc_jar()
    (tmp_path / "none.jar").touch()
    assert jdbc_jar() == tmp_path / "none.jar"


def test_one_thing_is_measured_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--pipeline", "--http"]) == 2
    assert "one at a time" in capsys.readouterr().err
