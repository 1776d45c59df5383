"""Fixtures for every test: a fresh database of either engine, and the private PostgreSQL."""

import itertools
import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import apsw
import pytest
import structlog

from eventhub.testing.memory import place_in_memory
from tests.object_store import ObjectStore
from tests.postgres_cluster import PostgresCluster
from tests.ready_databases import ready_databases

_numbers = itertools.count(1)
ROOM_IN_MEMORY = 4 << 30
LOCK_SECONDS = 60


def pytest_configure() -> None:
    """Files of tests are in memory where there is room: most are databases, and a disk makes each commit wait."""
    if place := place_in_memory(ROOM_IN_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)
    apsw.connection_hooks.append(_wait_for_locks)


def _wait_for_locks(connection: apsw.Connection) -> None:
    """What a test opens by itself waits for whoever is just writing; connections of the hub set their own time."""
    connection.set_busy_timeout(LOCK_SECONDS * 1000)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Give every test of the second pass its line; what may take longest begins first."""
    for item in items:
        if line := _line(item):
            item.add_marker(pytest.mark.alone)
            item.add_marker(pytest.mark.xdist_group(line))
    yield
    items.sort(key=lambda item: {"quiet": 0, "spark": 1}.get(_line(item) or "", 2))


def _line(item: pytest.Item) -> str | None:
    """The tests of a line follow each other; another line may run beside it."""
    if "spark" in getattr(item, "fixturenames", ()):
        return "spark"  # one Spark is enough for all of them
    if item.get_closest_marker("starts_spark"):
        return item.name
    return "quiet" if item.get_closest_marker("alone") or _reads_what_is_settled(item) else None


def _reads_what_is_settled(item: pytest.Item) -> bool:
    """A transaction of any test on the same server holds back what a pipeline may read."""
    return "pipeline" in item.path.relative_to(item.config.rootpath).parts and "postgres" in item.nodeid + " ".join(
        getattr(item, "fixturenames", ())
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """The cluster of this test process, started when the first test asks for it. It runs without fsync."""
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres: PostgresCluster) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database with all tables, empty; it is dropped some time later."""
    postgres.start()
    ready = ready_databases(postgres)
    name = ready.take()
    yield postgres.url(name)
    ready.leave(name)


@pytest.fixture
def bare_postgres_url(postgres: PostgresCluster) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database without any table; it is dropped afterwards, whoever uses it."""
    name = f"test_{next(_numbers)}"
    postgres.start()
    yield postgres.create_database(name)
    postgres.start()
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 server of this test process."""
    with ObjectStore(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Where a fresh SQLite database may be made; nothing is there yet."""
    return tmp_path / "hub.db"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a fresh store, each engine in turn; PostgreSQL is started only for its own half."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_path')}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """Whatever a test does to logging ends with it: what it writes to may be closed by then."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
