"""A stranger's walk: the tutorial's commands, typed in their order in an empty directory."""

import os
from pathlib import Path

import pytest

from tests.client.support import free_port
from tests.docs.pages import TUTORIAL, blocks_of, steps
from tests.docs.terminal import Terminal
from tests.pipeline.conftest import FOR_SMALL_DATA
from tests.postgres_cluster import PostgresCluster

POSTGRES = "postgresql://hub:secret@localhost/shop"


@pytest.mark.starts_spark
@pytest.mark.timeout(600)
def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path: Path):
    with PostgresCluster(fsync=True) as cluster:  # `eventhub doctor` would find fault with the one of other tests
        _walk(tmp_path, cluster.create_database("shop"))


def _walk(directory: Path, postgres_url: str) -> None:
    hub, receiver = str(free_port()), str(free_port())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}
    spark = directory / "spark"
    spark.mkdir()
    (spark / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in FOR_SMALL_DATA.items()))
    here = {"EVENTHUB_PORT": hub, "EVENTHUB_SPARK_TRAINING": "off", "SPARK_CONF_DIR": str(spark), "NO_COLOR": "1"}
    places = {"8080": hub, "9000": receiver, POSTGRES: postgres_url}
    (directory / "home").mkdir()
    typed = 0
    with Terminal(directory / "home", {**kept, **here}, places) as terminal:
        for block in (block for page in TUTORIAL for block in blocks_of(page)):
            if block.reason:
                continue
            if block.title:
                terminal.write(block.title, block.text)
                continue
            if block.page.stem == "postgresql" and "export EVENTHUB_DB" in block.text:
                terminal.end_all()
            for step in steps(block):
                terminal.run(step)
                typed += 1
    assert typed > 40
