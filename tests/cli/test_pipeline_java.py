"""`eventhub pipeline run` when Java itself gives out: too little memory, or a process that was ended from outside."""

import os
import signal
import subprocess
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from tests.cli.support import EVENTHUB, Command
from tests.pipeline.support import complete, numbered, publish

pytestmark = [pytest.mark.starts_spark, pytest.mark.timeout(600)]
SMALL = "spark.driver.memory=512m"


def test_a_thin_history_of_many_days_needs_little_memory(eventhub: Command, sqlite_path: Path) -> None:
    """Every hour has groups with sketches of their own. Spark told to hold them all in memory at once runs out of it,
    which is called that, and not a lake that cannot be reached; the next run goes on from there with what is usual.
    """
    eventhub.timeout = 300
    database = ("--db", str(sqlite_path))
    eventhub("pipeline", "synth", *database, "--events", "30000", "--days", "120", "--yes")
    small = ("pipeline", "run", *database, "--master", "local[2]", "--conf", "spark.driver.memory=512m")
    greedy = eventhub(*small, "--conf", "spark.sql.objectHashAggregate.sortBased.fallbackThreshold=1000000")
    assert greedy.returncode == 1
    assert "Spark ran out of memory" in greedy.stderr
    assert "The lake" not in greedy.stderr
    run = eventhub.json(*small)
    assert run["finished"]
    assert next(one["rows"] for one in run["derived"] if one["path"] == "marts/hourly") > 30_000


def test_a_continuous_run_outlives_its_java(eventhub: Command, sqlite_path: Path) -> None:
    def publish_ten(first: int) -> None:
        publish(str(sqlite_path), numbered(10, first=first))
        complete(str(sqlite_path), 10)

    publish_ten(0)
    options = ["--continuous", "--interval", "0s", "--json", "--master", "local[1]"]
    with subprocess.Popen(
        [EVENTHUB, "pipeline", "run", "--db", str(sqlite_path), *options],
        cwd=eventhub.directory,
        env=eventhub.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert next_derived(running.stdout)["finished"]
        os.kill(java_of(running.pid), signal.SIGKILL)
        publish_ten(10)
        assert next_derived(running.stdout)["finished"]
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Spark's Java process has ended" in errors


def next_derived(output: IO[str]) -> dict[str, Any]:
    """The next run that had something to derive."""
    while line := output.readline():
        run: dict[str, Any] = msgspec.json.decode(line)
        if run["derived"]:
            return run
    raise AssertionError("the command ended")


def java_of(parent: int) -> int:
    (java,) = [child for child in children_of(parent) if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    return java


def children_of(parent: int) -> list[int]:
    """Also those that another thread than the first has started, and their own."""
    lists = [task / "children" for task in Path(f"/proc/{parent}/task").iterdir()]
    children = [int(child) for file in lists for child in file.read_text(encoding="ascii").split()]
    return [*children, *(below for child in children for below in children_of(child))]
