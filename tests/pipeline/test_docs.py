"""The examples and commands of docs/how-to/pipeline.md run, one after the other, as a reader would try them."""

import shlex
from pathlib import Path

import apsw
import pytest
from pyspark.sql import SparkSession

from eventhub.cli import main
from tests.docs.pages import DOCS, PAGES, blocks_of, steps
from tests.pipeline.support import numbered, publish

PAGE = DOCS / "how-to" / "pipeline.md"
EXAMPLES = [block.text for block in blocks_of(PAGE) if block.language == "py"]
COMMANDS = [
    step.command
    for page in PAGES
    if page.parent.name != "tutorial"  # the walk types those of the tutorial
    for block in blocks_of(page)
    if block.language in ("console", "sh") and not block.reason and "eventhub pipeline" in block.text
    for step in steps(block)
]
SMALL = {"1e6": "2e2", "postgresql://user@host/database": "app.db"}


def test_the_examples_work(spark: SparkSession, tmp_path: Path) -> None:
    publish(str(tmp_path / "app.db"), numbered(9))
    assert len(EXAMPLES) == 5
    names: dict[str, object] = {}
    for text in EXAMPLES:
        placed = text.replace('"app.db"', repr(str(tmp_path / "app.db")))
        exec(placed.replace('"checkpoint"', repr(str(tmp_path / "checkpoint"))), names)
    found = spark.read.format("eventhub").option("url", str(tmp_path / "app.db")).load()
    counts = {row["queue"]: row["count"] for row in found.groupBy("queue").count().collect()}
    assert counts == {"default": 109, "derived": 9}


def test_the_commands_work(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose Spark they share; on a history that has the days and events of the page."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # a command ends its Spark, and this one is everybody's
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eventhub.toml").write_text('db = "app.db"\nlog_level = "warning"\n')
    assert run("pipeline synth --events 400 --until 2026-02-02 --yes") == 0
    assert run("subscribers add warehouse --url https://203.0.114.7/hook") == 0
    with apsw.Connection("app.db") as connection:
        oldest = connection.execute("SELECT min(id) FROM eventhub_events").get
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        if command.startswith("eventhub "):
            assert run(command.removeprefix("eventhub ").replace("4127", str(oldest))) == 0, command


def run(line: str) -> int:
    for here, there in SMALL.items():
        line = line.replace(here, there)
    return main(shlex.split(line, comments=True))
