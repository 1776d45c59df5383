"""Through a real PgBouncer, which takes another connection for each transaction: all that a store does."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Literal
from urllib.parse import quote, urlsplit

import pytest
import structlog

from eventhub.errors import SettingsError, StoreError
from eventhub.store import Store, open_store
from eventhub.store.messages import FANOUT
from eventhub.store.postgres import engine, signals
from eventhub.store.postgres.connection import connect, connect_session
from eventhub.store.postgres.server import Server
from eventhub.store.values import EventFilter
from eventhub.testing.pgbouncer import PgBouncer
from tests.conformance.support import QUEUE, complete, fail, ids, new, publish_one, take
from tests.postgres_cluster import PostgresCluster

SOON = 30
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
NEVER = 3600.0


def database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


@pytest.fixture
def pooler(postgres: PostgresCluster, postgres_url: str) -> Iterator[PgBouncer]:
    with PgBouncer(postgres, "transaction") as running:
        yield running


@pytest.fixture
def pooled_url(pooler: PgBouncer, postgres_url: str) -> str:
    return pooler.url(database(postgres_url))


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wakes up has been told."""
    monkeypatch.setattr(engine, "POLL_SECONDS", NEVER)


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("told", ["told", "found out"])
async def test_all_that_a_store_does_works_through_either_mode(
    postgres: PostgresCluster, postgres_url: str, mode: Literal["transaction", "session"], told: str
) -> None:
    """Several stores share a few connections to the server; names of prepared statements would clash at once."""
    async with AsyncExitStack() as stack:
        running = stack.enter_context(PgBouncer(postgres, mode, size=4 if mode == "transaction" else 40))
        url = running.url(database(postgres_url)) + (f"?pool={mode}" if told == "told" else "")
        stores = [await stack.enter_async_context(open_store(url, pool_size=4)) for _ in range(3)]
        await asyncio.gather(*(use(store, str(place)) for place, store in enumerate(stores)))
        assert await stores[0].count_events(EventFilter()) == 3 * (40 + 5 + 2 + 2)


async def use(store: Store, name: str) -> None:
    answers = await asyncio.gather(*(store.publish([new(queue=name)]) for _ in range(40)))
    numbers = [published[0].id for published in answers]
    assert len(set(numbers)) == 40
    await store.publish([new(queue=name, tags=("a", name)) for _ in range(5)])
    first = await publish_one(store, now=None, queue=name, key="k", idempotency_key=name)
    second = await publish_one(store, now=None, queue=name, key="k")
    assert await publish_one(store, now=None, queue=name, key="k", idempotency_key=name) == first
    taken = await store.claim(name, worker="w", lease=timedelta(minutes=1), limit=100)
    assert {claim.event.id for claim in taken} >= {*numbers, first}
    assert second not in ids(taken)
    for claim in taken:
        assert await complete(store, claim, None)
    (claim,) = await store.claim(name, worker="w", lease=timedelta(minutes=1), limit=100)
    assert claim.event.id == second
    await fail(store, claim, after=0, now=None)
    await store.publish([new(queue=name, broadcast=True, work=False), new(queue=name, delay=timedelta(hours=1))])
    assert (await store.event(first)) is not None
    assert await store.log(first)
    await store.stats()
    await store.open_counts()


async def test_a_pooler_is_found_out_whether_or_not_it_refuses_settings(
    postgres: PostgresCluster, postgres_url: str, pooled_url: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with open_store(pooled_url) as store, open_store(pooled_url) as other:
            await publish_one(store, now=None)
            await publish_one(other, now=None)
    assert sum(log["event"].startswith("a pooler was found") for log in logs) == 2
    with PgBouncer(postgres, "transaction", ignore_startup_parameters="jit") as silent:
        server = Server(silent.url(database(postgres_url)))
        connection = await server.connect()
        connection.terminate()
        assert not server.keeps_sessions
    server = Server(postgres_url)
    connection = await server.connect()
    assert await connection.fetchval("SHOW jit") == "off"
    connection.terminate()
    assert (server.pool, server.keeps_sessions) == (None, True)


@pytest.mark.usefixtures("nobody_looks")
async def test_wake_ups_come_over_the_listen_url(pooled_url: str, postgres_url: str) -> None:
    told = f"{pooled_url}?listen_url={quote(postgres_url, safe='')}"
    async with open_store(told) as store, open_store(pooled_url) as other:
        await woken_by(store, other)
    async with open_store(pooled_url, listen_url=postgres_url) as store, open_store(postgres_url) as other:
        await woken_by(store, other)
        await woken_by(other, store)


@pytest.mark.usefixtures("nobody_looks")
async def test_wake_ups_come_through_a_pooler_that_keeps_sessions(postgres: PostgresCluster, postgres_url: str) -> None:
    with PgBouncer(postgres, "session") as running:
        url = running.url(database(postgres_url)) + "?pool=session"
        async with open_store(url) as store, open_store(url) as other:
            await woken_by(store, other)


async def woken_by(store: Store, other: Store) -> None:
    async with asyncio.timeout(SOON):
        mark = store.wakeups.mark(QUEUE)
        assert await store.wait(QUEUE, since=mark, timeout=NEVER), "whoever begins to listen looks once"
        mark = store.wakeups.mark(QUEUE)
        await publish_one(other, now=None)
        assert await store.wait(QUEUE, since=mark, timeout=NEVER)


async def test_who_cannot_be_told_looks_often_and_says_so_once(pooled_url: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with open_store(pooled_url) as store, open_store(pooled_url) as other:
            async with asyncio.timeout(SOON):
                for queue in (QUEUE, FANOUT, QUEUE):
                    assert not await store.wait(queue, since=store.wakeups.mark(queue), timeout=NEVER)
            number = await publish_one(other, now=None)
            assert ids(await take(store, now=None)) == [number]
    said = [log for log in logs if log["event"].startswith("no wake-ups through the pooler")]
    (one,) = said
    assert one["remedy"] == "Set listen_url to the URL of the database itself."


async def test_a_listen_url_that_is_a_pooler_itself_is_found_out(pooled_url: str) -> None:
    async with open_store(pooled_url, listen_url=pooled_url) as store:
        async with asyncio.timeout(SOON):
            assert not await store.wait(QUEUE, since=store.wakeups.mark(QUEUE), timeout=NEVER)
        assert "keeps no sessions" in (await store.describe())["wakeups"]


async def test_nothing_is_left_in_a_session(postgres: PostgresCluster, postgres_url: str, pooled_url: str) -> None:
    async with open_store(pooled_url, pool_size=4) as store:
        await use(store, "q")
        sessions = postgres.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND query ILIKE '%LISTEN%'"
        )
        assert sessions.splitlines()[-1] in ("0", "1"), "but for the one that asks"
    for _ in range(8):
        connection = await connect(pooled_url)
        assert await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
        assert await connection.fetchval(LOCKS) == 0
        assert await connection.fetchval("SHOW enable_seqscan") == "on"
        connection.terminate()


async def test_what_needs_a_session_goes_past_the_pooler_or_says_so(pooled_url: str, postgres_url: str) -> None:
    with pytest.raises(SettingsError, match=r"keeps no sessions.*listen_url"):
        await connect_session(pooled_url)
    connection = await connect_session(f"{pooled_url}?listen_url={quote(postgres_url, safe='')}")
    await connection.execute("CREATE TEMPORARY TABLE mine (id integer)")
    assert await connection.fetchval("SELECT count(*) FROM mine") == 0
    await connection.close()


async def test_a_restarted_pooler_is_an_outage_like_any_other(pooler: PgBouncer, pooled_url: str) -> None:
    async with open_store(pooled_url) as store:
        first = await publish_one(store, now=None)
        pooler.stop()
        with pytest.raises(StoreError):
            await publish_one(store, now=None)
        pooler.start()
        async with asyncio.timeout(SOON):
            while True:
                try:
                    second = await publish_one(store, now=None)
                except StoreError:
                    continue
                break
        assert ids(await take(store, 10, now=None)) == [first, second]


def test_a_mode_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"pool is 'statement'; give one of transaction, session"):
        Server("postgresql://host/db?pool=statement")
    assert signals.POLL_SECONDS < 1
