"""A PostgreSQL that hangs: whatever a call has to wait for, one limit is over all of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from eventhub.errors import StoreUnavailable
from eventhub.store import Store, limits, open_store
from eventhub.store.postgres import PostgresStore
from tests.conformance.support import ids, new, publish_one, take
from tests.postgres_cluster import PostgresCluster

CALL = 4.0
LATE = 6.0
"""Seconds that a busy machine may add; two limits in a row would be more."""


@pytest.fixture(scope="module")
def hanging() -> Iterator[PostgresCluster]:
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of calls, in proportion."""
    monkeypatch.setattr(limits, "CALL_SECONDS", CALL)
    monkeypatch.setattr(limits, "STATEMENT_SECONDS", CALL - 0.5)
    monkeypatch.setattr(limits, "CANCEL_SECONDS", 1.0)


def test_the_limits_keep_what_is_promised() -> None:
    assert limits.CHECK_SECONDS < 5


async def test_every_call_ends_within_its_limit_and_all_goes_on_afterwards(hanging: PostgresCluster) -> None:
    url = hanging.create_database("limits")
    async with open_store(url, pool_size=3) as store:
        for key in (None, "k"):
            await publish_one(store, now=None, key=key)
        hanging.pause()
        try:
            took = await asyncio.gather(*(refused(store, place) for place in range(30)))
        finally:
            hanging.resume()
        assert max(took) < CALL + LATE
        number = await until_it_works(store)
        assert number in ids(await take(store, 100, now=None))


async def refused(store: Store, place: int) -> float:
    """One of the things that callers do; seconds until they hear that it cannot be done."""
    began = time.monotonic()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.publish([new(payload=place)]),
        lambda: store.publish([new(key="k")]),
        lambda: store.publish([new(tags=(f"t{place}",))]),
        lambda: take(store, now=None),
        store.stats,
    ]
    with pytest.raises(StoreUnavailable):
        await calls[place % len(calls)]()
    return time.monotonic() - began


async def until_it_works(store: Store) -> int:
    for _ in range(100):
        try:
            return await publish_one(store, now=None)
        except StoreUnavailable:
            await asyncio.sleep(0)
    raise AssertionError("the store did not come back")


async def slowly(connection: Any) -> None:
    while True:
        await connection.fetch("SELECT pg_sleep(0.5)")


async def test_a_transaction_that_takes_too_long_is_cut(hanging: PostgresCluster) -> None:
    """Several statements, each of which is quick enough."""
    url = hanging.create_database("transactions")
    async with open_store(url) as store:
        began = time.monotonic()
        assert isinstance(store, PostgresStore)
        with pytest.raises(StoreUnavailable):
            await store._transact(slowly)
        assert time.monotonic() - began < CALL + LATE
        await publish_one(store, now=None)


async def test_what_waits_behind_others_is_refused_in_time_and_leaves_nothing(hanging: PostgresCluster) -> None:
    """The second of two batches of a single lane: it would begin only when the first has taken all the time."""
    url = hanging.create_database("queues")
    async with open_store(url, pool_size=3) as store:
        await publish_one(store, now=None)
        hanging.pause()
        try:
            calls = [asyncio.create_task(refused(store, 0)) for _ in range(200)]
            took = await asyncio.gather(*calls)
        finally:
            hanging.resume()
        assert max(took) < CALL + LATE
        await until_it_works(store)
