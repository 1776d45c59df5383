"""Databases that keep their promises (fsync on), a nursery of processes, and a seed that is always told."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventhub.testing.torture.children import Nursery
from tests.postgres_cluster import PostgresCluster

Say = Callable[[str], None]


@pytest.fixture
def say(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Say:
    """Print to the terminal, also when the test passes."""
    writer = request.config.get_terminal_writer()

    def line(text: str) -> None:
        with capsys.disabled():
            writer.line(f"\n{request.node.name}: {text}")

    return line


@pytest.fixture
def seed(say: Say) -> int:
    """Where all chance comes from: EVENTHUB_SEED, or always the same."""
    number = int(os.environ.get("EVENTHUB_SEED", "20260115"))
    say(f"EVENTHUB_SEED={number}")
    return number


@pytest.fixture
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Processes, with histories in a directory that is not the database's."""
    with Nursery(tmp_path_factory.mktemp("histories"), packages=["tests.crash"]) as made:
        yield made


@pytest.fixture(scope="module")
def durable_postgres() -> Iterator[PostgresCluster]:
    with PostgresCluster(fsync=True) as cluster:
        yield cluster


@pytest.fixture
def durable_postgres_url(durable_postgres: PostgresCluster) -> Iterator[str]:
    durable_postgres.start()
    yield durable_postgres.create_database("crash")
    durable_postgres.start()
    durable_postgres.drop_database("crash")


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of either engine that honours fsync."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'hub.db'}"
    url: str = request.getfixturevalue("durable_postgres_url")
    return url
