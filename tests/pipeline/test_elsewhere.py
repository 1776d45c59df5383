"""The same command with executors that are processes of their own, without Java on the PATH, and by spark-submit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import eventhub.pipeline
from eventhub.lake.place import Lake
from eventhub.pipeline.java import find_java
from tests.pipeline.support import numbered, publish

pytestmark = [pytest.mark.starts_spark, pytest.mark.timeout(400)]
PROGRAM = Path(eventhub.pipeline.__file__).with_name("__main__.py")


def run(command: list[str], directory: Path, **environment: str) -> dict[str, object]:
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def spark_home(directory: Path) -> Path:
    """Spark as it is installed, in a place where executors may leave what they write."""
    home = directory / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return home


def test_executors_of_their_own_copy_where_no_java_is_installed(tmp_path: Path) -> None:
    publish("sqlite:///" + str(tmp_path / "hub.db"), numbered(1000))
    options = ["--db", "hub.db", "--lake", "lake", "--only", "copy", "--partitions", "2", "--json"]
    done = run(
        [sys.executable, "-m", "eventhub.pipeline", "run", "--master", "local-cluster[2,1,1024]", *options],
        tmp_path,
        PATH="",
        HOME=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        SPARK_HOME=str(spark_home(tmp_path)),
        EVENTHUB_SPARK_TRAINING="off",
    )
    assert done["rows"] == 2000
    assert len(list((tmp_path / "spark" / "work").glob("app-*/*/stderr"))) == 2
    for dataset in ("events", "event_log"):
        files = Lake(str(tmp_path / "lake")).table(dataset).describe()
        assert (files["files"], files["rows"]) == (2, 1000)


def test_spark_submit_runs_the_same_command(tmp_path: Path) -> None:
    publish("sqlite:///" + str(tmp_path / "hub.db"), numbered(100))
    options = ["--db", "hub.db", "--lake", "lake", "--only", "copy", "--partitions", "2", "--json"]
    done = run(
        [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", str(PROGRAM), "run", *options],
        tmp_path,
        PATH=os.environ["PATH"],
        HOME=str(tmp_path),
        JAVA_HOME=str(find_java().spark_home()),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert (done["rows"], done["finished"]) == (200, True)
