"""The pipeline's benchmark: a tiny run of what needs no derived tables; nothing is timed."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eventhub.bench import BenchSettings, run_bench
from eventhub.bench.databases import PostgresDatabases, SqliteDatabases
from eventhub.bench.pipeline import workloads
from eventhub.bench.pipeline.stage import JAR_VARIABLE, jdbc_jar
from eventhub.bench.settings import PIPELINE_WORKLOADS, chosen
from eventhub.bench.workloads import Context
from eventhub.cli import main
from eventhub.errors import SettingsError

SOME = ("pipeline-copy-2", "pipeline-read-2", "pipeline-rollup", "pipeline-publish")
TINY = BenchSettings(pipeline=True, events=400, rounds=1, only=SOME)


def test_every_workload_has_its_name(tmp_path: Path) -> None:
    found = workloads.pipeline_workloads(Context(SqliteDatabases(tmp_path), TINY))
    assert tuple(workload.name for workload in found) == PIPELINE_WORKLOADS
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


def test_a_driver_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(JAR_VARIABLE, str(tmp_path / "none.jar"))
    with pytest.raises(SettingsError, match="no such file"):
        jdbc_jar()
    (tmp_path / "none.jar").touch()
    assert jdbc_jar() == tmp_path / "none.jar"


def test_one_thing_is_measured_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--pipeline", "--http"]) == 2
    assert "one at a time" in capsys.readouterr().err
