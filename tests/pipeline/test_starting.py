"""Spark starts with nothing but pip: no Java on the PATH, no JAVA_HOME, and settings that fit."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eventhub.pipeline import session
from eventhub.pipeline.java import Java
from eventhub.pipeline.training import trained


@pytest.mark.starts_spark
@pytest.mark.timeout(300)
def test_spark_runs_where_no_java_is_installed(tmp_path: Path) -> None:
    script = """
        import os
        from eventhub.pipeline import session
        spark = session(master="local[1]", train=False)
        doubled = spark.range(3).mapInArrow(lambda batches: batches, "id long")
        print(sorted(row.id for row in doubled.collect()), os.environ["JAVA_HOME"])
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PATH": "", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"[0, 1, 2] {tmp_path / 'eventhub' / 'java-'}")
    assert "log4j" not in answer.stderr
    assert "log level" not in answer.stderr


def test_the_session_is_set_up_well_and_can_be_had_again(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    again = session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, train=False)
    assert again.sparkContext is spark.sparkContext


def test_an_old_java_is_not_trained_and_a_switch_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert trained(Java(tmp_path, 21, ""), may_train=True) is None
    monkeypatch.setenv("EVENTHUB_SPARK_TRAINING", "off")
    assert trained(Java(tmp_path, 25, ""), may_train=True) is None
    monkeypatch.delenv("EVENTHUB_SPARK_TRAINING")
    assert trained(Java(tmp_path, 25, ""), may_train=False) is None
    assert [file.name for file in tmp_path.iterdir()] == ["eventhub"]


def test_training_that_fails_says_so_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EVENTHUB_SPARK_TRAINING", raising=False)
    monkeypatch.setattr("eventhub.pipeline.training.LESSON", "raise SystemExit('no lesson today')")
    assert trained(Java(tmp_path, 25, ""), may_train=True) is None
    said = capfd.readouterr().err
    assert "Preparing faster starts of Spark" in said
    assert "no lesson today; Spark works without" in said.replace("\n", "")
    assert not list((tmp_path / "eventhub").glob("*.draft"))


def test_training_that_was_done_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EVENTHUB_SPARK_TRAINING", raising=False)
    java = Java(tmp_path, 25, "")
    lesson = (
        "import os, re; open(re.search('AOTCacheOutput=([^ ]+)', os.environ['PYSPARK_SUBMIT_ARGS'])[1], 'w').close()"
    )
    monkeypatch.setattr("eventhub.pipeline.training.LESSON", lesson)
    cache = trained(java, may_train=True)
    assert cache is not None
    assert cache.exists()
    assert trained(java, may_train=False) == cache
