"""A PostgreSQL server that crashes, throws everybody out, or answers into the void: work goes on by itself."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import pytest

from eventhub.errors import StoreUnavailable
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store
from eventhub.store.postgres import PostgresStore
from eventhub.store.values import EventFilter
from eventhub.testing.torture.checker import check
from eventhub.testing.torture.children import Child, Nursery, until
from eventhub.testing.torture.draining import drained
from eventhub.testing.torture.evidence import gather_from
from eventhub.testing.torture.proxy import Proxy
from tests.crash.conftest import Say
from tests.postgres_cluster import PostgresCluster

pytestmark = [pytest.mark.alone]

CRASHES = 4
STORM_SECONDS = 5.0
RECOVERY_SECONDS = 20.0
USUAL_SECONDS = 3
AS_BEFORE = 0.95
AS_BEFORE_SECONDS = 30.0


# ------------------------------------------------------ crashes under load


async def _start(nursery: Nursery, url: str, seed: int) -> list[Child]:
    async with open_store(url):
        pass  # the tables are there before the first fault
    common: dict[str, Any] = {"url": url, "seed": seed}
    return [
        nursery.spawn("publisher", "publisher-a", **common, pause=0.05),
        nursery.spawn("publisher", "publisher-b", **common, pause=0.05),
        nursery.spawn("worker", "worker-a", **common, style="manager"),
        nursery.spawn("worker", "worker-b", **common, style="manager"),
        nursery.spawn("worker", "worker-c", **common, style="bare"),
    ]


async def _busy(nursery: Nursery, crew: list[Child], since: float) -> float:
    """Wait until every child has done something again; returns how long it took since then."""

    def idle() -> list[str]:
        done = ("publish", "report")
        busy = {r.process for r in nursery.records() if r.op in done and r.kind == "ok" and r.time > since}
        return [child.process for child in crew if child.process not in busy]

    await until(lambda: not idle(), RECOVERY_SECONDS, "recovery of everybody")
    return time.monotonic() - since


def _reports(nursery: Nursery, since: float) -> list[int]:
    """How many reports were taken in each whole second since then."""
    times = (r.time for r in nursery.records() if r.op == "report" and r.kind == "ok" and r.time > since)
    counts = Counter(int(time - since) for time in times)
    return [counts[second] for second in range(int(time.monotonic() - since))]


async def _finish(nursery: Nursery, crew: list[Child], url: str, say: Say) -> None:
    """Stop publishing, work everything off, stop working, and judge."""
    await _end([child for child in crew if child.process.startswith("publisher")])
    async with open_store(url) as store:
        draining = await drained(store)
        say(f"drained in {draining:.1f} s")
        await _end([child for child in crew if child.process.startswith("worker")])
        evidence = nursery.directory / "evidence.db"
        await gather_from(store, nursery.directory, evidence, facts={"drain.seconds": draining})
    assert nursery.errors() == ""
    assert {r.process for r in nursery.records() if r.op == "end"} == {child.process for child in crew}
    verdict = check(evidence)
    say(", ".join(f"{name}: {count}" for name, count in verdict.figures.items()))
    assert verdict.clean, "\n".join(verdict.examples)


async def _end(children: list[Child]) -> None:
    for child in children:
        assert child.alive, f"{child.process} ended by itself"
        child.send(signal.SIGTERM)
    for child in children:
        await child.ended()


@pytest.mark.timeout(240)
async def test_everybody_outlasts_a_server_that_crashes(
    durable_postgres: PostgresCluster, durable_postgres_url: str, nursery: Nursery, seed: int, say: Say
) -> None:
    chance = random.Random(seed)
    crew = await _start(nursery, durable_postgres_url, seed)
    await _busy(nursery, crew, time.monotonic())
    began = time.monotonic()
    await asyncio.sleep(USUAL_SECONDS)
    usual = median(_reports(nursery, began))
    recoveries = []
    for _ in range(CRASHES):
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        await asyncio.to_thread(durable_postgres.stop, "immediate")
        await asyncio.sleep(chance.uniform(0, 1))
        await asyncio.to_thread(durable_postgres.start)
        recoveries.append(await _busy(nursery, crew, began := time.monotonic()))
    await until(
        lambda: max(_reports(nursery, began), default=0) >= AS_BEFORE * usual, AS_BEFORE_SECONDS, "the former rate"
    )
    say(f"{CRASHES} crashes, everybody at work again after at most {max(recoveries):.1f} s")
    await _finish(nursery, crew, durable_postgres_url, say)


@pytest.mark.timeout(240)
async def test_everybody_outlasts_a_storm_of_lost_connections(
    durable_postgres: PostgresCluster, durable_postgres_url: str, nursery: Nursery, seed: int, say: Say
) -> None:
    crew = await _start(nursery, durable_postgres_url, seed)
    await _busy(nursery, crew, time.monotonic())
    began, ended = time.monotonic(), 0
    while time.monotonic() < began + STORM_SECONDS:
        ended += await asyncio.to_thread(durable_postgres.terminate_backends, "crash")
        await asyncio.sleep(0.2)
    recovery = await _busy(nursery, crew, time.monotonic())
    say(f"{ended} connections lost, everybody at work again after {recovery:.1f} s")
    await _finish(nursery, crew, durable_postgres_url, say)


# ------------------------------------------------------------- lost replies


@pytest.fixture(scope="module")
def tcp_postgres() -> Iterator[PostgresCluster]:
    with PostgresCluster(tcp=True) as cluster:
        yield cluster


@pytest.fixture
async def proxy(tcp_postgres: PostgresCluster) -> AsyncIterator[Proxy]:
    assert tcp_postgres.port is not None
    async with Proxy(tcp_postgres.port) as running:
        yield running


@pytest.fixture
async def store(tcp_postgres: PostgresCluster, proxy: Proxy) -> AsyncIterator[Store]:
    """A store that reaches the server through the proxy."""
    await asyncio.to_thread(tcp_postgres.execute, "CREATE DATABASE lossy")
    try:
        url = tcp_postgres.tcp_url("lossy").replace(f":{tcp_postgres.port}/", f":{proxy.port}/")
        async with open_store(url) as opened:
            yield opened
    finally:
        await asyncio.to_thread(tcp_postgres.execute, "DROP DATABASE lossy WITH (FORCE)")


@pytest.fixture
def queue(store: Store) -> EventQueue:
    return EventQueue(store, queue="crash", abandoned_after=0.5, worker="lonely-worker")


def _keyed(size: int) -> list[dict[str, Any]]:
    return [{"type": "crash.test", "payload": {"token": f"t-{n}"}, "idempotency_key": f"t-{n}"} for n in range(size)]


async def _stored(store: Store) -> list[int]:
    return sorted(event.id for event in await store.events(EventFilter(queue="crash", limit=1000)))


@pytest.mark.parametrize("size", [1, 50])
async def test_a_commit_whose_reply_was_lost_is_not_made_twice(
    store: Store, queue: EventQueue, proxy: Proxy, size: int
) -> None:
    proxy.cut(b"COMMIT;")
    with pytest.raises(StoreUnavailable):
        await queue.publish_many(_keyed(size))
    assert proxy.cuts == 1
    stored = await _stored(store)
    assert len(stored) == size, "the commit did happen"
    assert await queue.publish_many(_keyed(size)) == stored
    assert await _stored(store) == stored


async def test_a_connection_lost_before_the_commit_leaves_nothing_behind(
    store: Store, queue: EventQueue, proxy: Proxy
) -> None:
    proxy.cut(b"t-0")
    with pytest.raises(StoreUnavailable):
        await queue.publish_many(_keyed(3))
    assert proxy.cuts == 1
    assert await _stored(store) == []
    ids = await queue.publish_many(_keyed(3))
    assert await _stored(store) == ids


async def test_a_report_whose_reply_was_lost_may_be_made_again(store: Store, queue: EventQueue, proxy: Proxy) -> None:
    """With an ordering key, so that the report is a transaction with a COMMIT of its own."""
    event = await queue.publish("crash.test", {"token": "t"}, ordering_key="key")
    taken = await queue.poll()
    assert taken is not None
    proxy.cut(b"COMMIT;")
    with pytest.raises(StoreUnavailable):
        await queue.finalize(taken)
    assert proxy.cuts == 1
    await queue.finalize(taken)
    assert [str(entry.action) for entry in await store.log(event.id)] == ["PUBLISHED", "PICKED", "COMPLETED"]


async def test_a_claim_whose_reply_was_lost_is_given_out_again_after_its_lease(
    store: Store, queue: EventQueue, proxy: Proxy
) -> None:
    event = await queue.publish("crash.test", {"token": "t"})
    proxy.cut(b"lonely-worker")
    with pytest.raises(StoreUnavailable):
        await queue.poll()
    assert proxy.cuts == 1
    assert await queue.poll() is None, "the claim did happen and its lease runs"
    await asyncio.sleep(0.6)
    taken = await queue.poll()
    assert taken is not None
    assert (taken.id, taken.attempts, taken.fence) == (event.id, 2, 2)
    await queue.finalize(taken)


# ------------------------------------------------------------------ signals


async def test_a_signal_that_arrives_as_the_listener_ends_does_no_harm(
    postgres: PostgresCluster, postgres_url: str
) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    async with open_store(postgres_url) as store:
        assert isinstance(store, PostgresStore)
        mark = store.wakeups.mark("crash")
        store._signals.listen()
        assert await store.wakeups.wait("crash", since=mark, timeout=10.0), "it listens now"
        postgres.execute("NOTIFY eventhub, 'crash'", database=urlsplit(postgres_url).path.removeprefix("/"))
        await asyncio.sleep(0)  # in this very round of the loop the signal is read, after us
        await store._signals.stop()
        await asyncio.sleep(0.01)
    assert problems == []
