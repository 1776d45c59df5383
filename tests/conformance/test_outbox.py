"""Publishing inside the caller's own transaction: committed with it, gone with it, and refused where it cannot work."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg
import pytest

from eventhub.errors import IdempotencyConflict
from eventhub.store import Store
from tests.conformance.support import START, actions, complete, ids, new, publish_one, take, take_one


@asynccontextmanager
async def connected(store: Store) -> AsyncIterator[Any]:
    """The caller's own connection, with a table of the caller's."""
    if store.engine == "sqlite":
        connection = apsw.Connection(store.url)
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)")
        yield connection
        connection.close()
        return
    direct = await asyncpg.connect(store.url)
    await direct.execute("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY)")
    yield direct
    await direct.close()


@asynccontextmanager
async def transaction(connection: Any) -> AsyncIterator[None]:
    if isinstance(connection, apsw.Connection):
        with connection:
            yield
    else:
        async with connection.transaction():
            yield


@asynccontextmanager
async def rolled_back(connection: Any) -> AsyncIterator[None]:
    if isinstance(connection, apsw.Connection):
        connection.execute("BEGIN")
        yield
        connection.execute("ROLLBACK")
    else:
        transaction = connection.transaction()
        await transaction.start()
        yield
        await transaction.rollback()


async def execute(connection: Any, sql: str) -> None:
    if isinstance(connection, apsw.Connection):
        connection.execute(sql)
    else:
        await connection.execute(sql)


async def test_a_commit_publishes_the_event_with_the_callers_rows(store: Store) -> None:
    async with connected(store) as connection:
        async with transaction(connection):
            await execute(connection, "INSERT INTO orders VALUES (1)")
            (published,) = await store.publish([new(payload="mine")], connection=connection, now=START)
        claim = await take_one(store)
    assert claim.event.id == published.id
    assert claim.event.payload == "mine"
    assert await actions(store, published.id) == ["PUBLISHED", "PICKED"]


async def test_before_the_commit_nobody_sees_the_event(store: Store) -> None:
    async with connected(store) as connection:
        async with transaction(connection):
            (published,) = await store.publish([new()], connection=connection, now=START)
            assert await store.event(published.id) is None
            assert await store.ready("work") == []
        assert await store.event(published.id) is not None


async def test_a_rollback_leaves_nothing(store: Store) -> None:
    events = [new(), new(key="lane"), new(idempotency_key="k"), new(queue="fresh", tags=("new",))]
    async with connected(store) as connection, rolled_back(connection):
        published = await store.publish(events, connection=connection, now=START)
    for each in published:
        assert await store.event(each.id) is None
        assert await store.log(each.id) == []
    assert await take(store, 10) == []
    (again,) = await store.publish([new(payload="other", idempotency_key="k")], now=START)
    assert not again.duplicate
    number = await publish_one(store, key="lane")
    assert number in ids(await take(store, 10)), "the key has no head that was never committed"


async def test_a_route_first_used_in_a_rolled_back_transaction_still_works(store: Store) -> None:
    async with connected(store) as connection, rolled_back(connection):
        await store.publish([new(queue="fresh", tags=("new",))], connection=connection)
    number = await publish_one(store, queue="fresh", tags=("new",))
    assert ids(await take(store, queue="fresh", tags=["new"])) == [number]


async def test_a_conflict_leaves_the_callers_transaction_usable(store: Store) -> None:
    await publish_one(store, idempotency_key="k")
    async with connected(store) as connection:
        async with transaction(connection):
            with pytest.raises(IdempotencyConflict):
                await store.publish([new(payload="x", idempotency_key="k")], connection=connection, now=START)
            (published,) = await store.publish([new(payload="kept")], connection=connection, now=START)
        assert await store.event(published.id) is not None


async def test_an_ordered_event_of_a_transaction_waits_its_turn(store: Store) -> None:
    head = await publish_one(store, key="k")
    async with connected(store) as connection, transaction(connection):
        (behind,) = await store.publish([new(key="k")], connection=connection, now=START)
    claims = await take(store, 10)
    assert ids(claims) == [head]
    await complete(store, claims[0])
    assert ids(await take(store, 10)) == [behind.id]


async def test_a_connection_without_a_transaction_is_refused(store: Store) -> None:
    async with connected(store) as connection:
        with pytest.raises(ValueError, match=r"not in a transaction; start one"):
            await store.publish([new()], connection=connection)
    assert await take(store) == []


async def test_a_connection_of_another_driver_is_refused(store: Store) -> None:
    foreign = sqlite3.connect(":memory:")
    with pytest.raises(TypeError, match=r"connection is a sqlite3\.Connection; this store is"):
        await store.publish([new()], connection=foreign)
    foreign.close()


async def test_a_pooled_connection_will_do(store: Store) -> None:
    if store.engine == "sqlite":
        return  # there is no pool to take one from
    async with (
        asyncpg.create_pool(store.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        (published,) = await store.publish([new()], connection=connection, now=START)
    assert await store.event(published.id) is not None
