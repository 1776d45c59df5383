"""Running servers on either engine; those that tests share are started once a test process."""

import itertools
import secrets
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.http.api import Api
from tests.http.receiver import Receiver
from tests.http.server import HubServer
from tests.postgres_cluster import PostgresCluster
from tests.ready_databases import ready_databases

_numbers = itertools.count(1)

MakeDatabase = Callable[[str], str]


class Hub(Api):
    """A running server and requests to it."""

    def __init__(self, server: HubServer, *, key: str | None = None) -> None:
        super().__init__(server.port, key=key)
        self.server = server
        self.log_starts = server.log_size()

    def with_key(self, key: str | None) -> "Hub":
        return Hub(self.server, key=key)


MakeHub = Callable[..., Hub]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its servers logged meanwhile."""
    report = yield
    if report.failed:
        hubs = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Hub)]
        hubs += getattr(item, "_hubs", [])
        for hub in hubs:
            report.sections.append((f"log of {hub.server.url}", hub.server.log(hub.log_starts)[-6000:]))
    return report


@pytest.fixture(scope="session")
def hub_postgres() -> Iterator[PostgresCluster]:
    """A cluster that no other test stops."""
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def make_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MakeDatabase:
    """A new, empty database of an engine; PostgreSQL is started only when it is asked for."""

    def make(engine: str) -> str:
        if engine == "sqlite":
            return str(tmp_path_factory.mktemp("database") / "hub.db")
        cluster: PostgresCluster = request.getfixturevalue("hub_postgres")
        cluster.start()
        return cluster.url(ready_databases(cluster).take())

    return make


class Shared:
    """Servers by engine and flags, each started when the first test asks for it."""

    def __init__(self, make_database: MakeDatabase, directories: pytest.TempPathFactory) -> None:
        self._make_database = make_database
        self._directories = directories
        self._servers: dict[tuple[str, ...], HubServer] = {}

    def get(self, engine: str, *flags: str) -> HubServer:
        wanted = (engine, *flags)
        if wanted not in self._servers:
            made = HubServer(self._make_database(engine), self._directories.mktemp("server"), *flags)
            self._servers[wanted] = made.start()
        return self._servers[wanted]

    def close(self) -> None:
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="session")
def shared(make_database: MakeDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(make_database, tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def hub(shared: Shared, engine: str) -> Hub:
    """A server with the defaults. Tests share it: each keeps to tags of its own."""
    return Hub(shared.get(engine))


@pytest.fixture
def quick(shared: Shared, engine: str) -> Hub:
    """The same, but what failed is tried again at once."""
    return Hub(shared.get(engine, "--retry-seconds", "0"))


@pytest.fixture
def webhooks(shared: Shared, engine: str) -> Hub:
    """The same, and webhooks may go to this machine. Tests share it: each keeps to event types of its own."""
    return Hub(shared.get(engine, "--allow-private", "127.0.0.0/8"))


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """A consumer of webhooks on this machine; each test has paths of its own."""
    with Receiver() as running:
        yield running


@pytest.fixture
def sqlite_hub(shared: Shared) -> Hub:
    """The server with the defaults, where the engine makes no difference."""
    return Hub(shared.get("sqlite"))


@pytest.fixture
def make_hub(request: pytest.FixtureRequest, make_database: MakeDatabase, tmp_path: Path) -> Iterator[MakeHub]:
    """Servers of a test's own, with the flags it needs; they end with it."""
    made: list[Hub] = []
    request.node._hubs = made

    def make(engine: str = "sqlite", *flags: str, db: str | None = None, afresh: bool = False) -> Hub:
        directory = tmp_path / f"server-{len(made)}"
        server = HubServer(db or make_database(engine), directory, *flags, afresh=afresh).start()
        made.append(Hub(server))
        return made[-1]

    yield make
    for hub in made:
        hub.server.stop()


@pytest.fixture
def tag() -> str:
    """A tag that no other test has."""
    return f"tag-{secrets.token_hex(6)}"


@pytest.fixture
def worker() -> str:
    """A worker that no other test has."""
    return f"host-{secrets.token_hex(4)}:{next(_numbers)}"
