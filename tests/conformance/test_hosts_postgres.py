"""Several hosts in one URL: whichever is silent, refuses or cannot be written to, the next one is taken soon."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from eventhub.errors import SettingsError, StoreReadOnly, StoreUnavailable
from eventhub.store import open_store
from eventhub.store.postgres.connection import connect
from eventhub.store.postgres.server import CONNECT_SECONDS, HOST_SECONDS, Server
from tests.conformance.support import publish_one
from tests.postgres_cluster import PostgresCluster

Host = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def reachable() -> Iterator[PostgresCluster]:
    """A cluster with a port."""
    with PostgresCluster(tcp=True) as cluster:
        yield cluster


def port_of(connection: Any) -> int:
    port: int = connection._addr[1]
    return port


@contextmanager
def silent() -> Iterator[str]:
    """A host that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def refusing() -> Iterator[str]:
    """A host where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def before(url: str, *others: str) -> str:
    """The URL with other hosts before its own."""
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}@{','.join([*others, place])}").geturl()


@pytest.mark.parametrize("first", [silent, refusing])
async def test_the_next_host_is_asked_within_three_seconds(reachable: PostgresCluster, first: Host) -> None:
    assert HOST_SECONDS < 3, "what is promised"
    with first() as host:
        server = Server(before(reachable.tcp_url(), host))
        began = time.monotonic()
        connection = await server.connect()
        took = time.monotonic() - began
        assert port_of(connection) == reachable.port
        connection.terminate()
        assert took < CONNECT_SECONDS, "no longer than one host alone might take"
        assert (took >= HOST_SECONDS) is (first is silent)
        again = time.monotonic()
        (await server.connect()).terminate()
        assert time.monotonic() - again < HOST_SECONDS, "the one that answered last is asked first"


async def test_a_store_works_on_whichever_host_answers(reachable: PostgresCluster) -> None:
    with silent() as one, refusing() as two:
        url = before(reachable.tcp_url(), one, two)
        async with open_store(url) as store:
            await asyncio.gather(*(publish_one(store, now=None, key=str(n)) for n in range(5)))


async def test_a_host_that_cannot_be_written_to_is_passed_over(reachable: PostgresCluster) -> None:
    """Such as a standby; it is only the first of two names here, so that the same server is both."""
    with PostgresCluster(tcp=True) as standby:
        for cluster in (standby, reachable):
            cluster.execute("ALTER USER postgres PASSWORD 'same'")
        standby.execute("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
        place = f"127.0.0.1:{standby.port}"
        url = before(f"postgresql://postgres:same@127.0.0.1:{reachable.port}/postgres", place)
        async with open_store(url) as store:
            await publish_one(store, now=None)
        connection = await connect(url + "?target_session_attrs=read-only")
        assert port_of(connection) == standby.port
        connection.terminate()
        connection = await connect(url + "?target_session_attrs=prefer-standby")
        assert port_of(connection) == standby.port, "there is no standby, so any will do"
        connection.terminate()
        alone = f"postgresql://postgres:same@127.0.0.1:{standby.port}"
        with pytest.raises(StoreUnavailable, match=r"none of the hosts can be used \(.*read-only"):
            await open_store(before(alone, place) + "/postgres").open()


async def test_a_host_that_can_no_longer_be_written_to_is_left(reachable: PostgresCluster) -> None:
    reachable.create_database("changing")
    other = PostgresCluster(tcp=True)
    with other:
        for cluster in (reachable, other):
            cluster.execute("ALTER USER postgres PASSWORD 'same'")
        other.create_database("changing")
        url = f"postgresql://postgres:same@127.0.0.1:{reachable.port},127.0.0.1:{other.port}/changing"
        async with open_store(url.replace(f"127.0.0.1:{reachable.port},", "")):
            pass  # its tables
        async with open_store(url) as store:
            await publish_one(store, now=None)
            reachable.execute(
                "ALTER DATABASE changing SET default_transaction_read_only = on",
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'changing'",
            )
            for _ in range(20):
                try:
                    await publish_one(store, now=None)
                except (StoreUnavailable, StoreReadOnly):
                    continue
                break
            number = await publish_one(store, now=None)
            direct = await asyncpg.connect(other.tcp_url("changing").replace(other.password, "same"))
            assert await direct.fetchval("SELECT max(id) FROM eventhub.events") == number
            await direct.close()
    reachable.execute("ALTER USER postgres PASSWORD '" + reachable.password + "'")


async def test_connect_timeout_of_the_url_is_honoured() -> None:
    with silent() as host:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await connect(f"postgresql://me@{host}/db?connect_timeout=1")
        assert 1 <= time.monotonic() - began < CONNECT_SECONDS
        with pytest.raises(
            StoreUnavailable, match=r"none of the hosts can be used \(.*no answer within 0\.5 s; .*0\.5 s\)"
        ):
            await connect(f"postgresql://me@{host},{host}/db?connect_timeout=0.5")
    with pytest.raises(SettingsError, match="connect_timeout is 'soon'; give a number of seconds"):
        await connect("postgresql://me@host/db?connect_timeout=soon")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://me@one/db", []),
        ("postgresql:///db?host=/tmp&port=5433", []),
        ("postgresql://me@one,two:5433/db", [("one", 5432), ("two", 5433)]),
        ("postgresql://me@[::1]:5433,[::2]/db", [("::1", 5433), ("::2", 5432)]),
        ("postgresql://me@/db?host=one,/run/pg&port=5433,5434", [("one", 5433), ("/run/pg", 5434)]),
        ("postgresql://me@one,two/db?port=5433", [("one", 5433), ("two", 5433)]),
        ("postgresql://me:a%40b@one,%2Frun%2Fpg/db", [("one", 5432), ("/run/pg", 5432)]),
    ],
)
def test_hosts_are_read_as_other_drivers_read_them(url: str, hosts: list[tuple[str, int]]) -> None:
    assert Server(url)._hosts == hosts
