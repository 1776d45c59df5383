"""Connections at hand: none is kept from somebody who waits, and none is used that is broken, stale or half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from eventhub.store.postgres import lending
from eventhub.store.postgres.connection import open_pool
from eventhub.store.postgres.lending import Lending
from eventhub.store.postgres.memory import HubConnection, Incarnations
from eventhub.store.postgres.server import Server

WHO = "SELECT pg_backend_pid()"


@pytest.fixture
def incarnations(postgres_url: str) -> Incarnations:
    return Incarnations(postgres_url, lambda: None)


@pytest.fixture
async def pool(postgres_url: str, incarnations: Incarnations) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    opened = await open_pool(Server(postgres_url), 1, connection_class=HubConnection, init=incarnations.check)
    yield opened
    opened.terminate()


@pytest.fixture
async def lent(pool: asyncpg.Pool[asyncpg.Record], incarnations: Incarnations) -> Lending:
    made = Lending(pool, incarnations)
    await made.identify()
    return made


async def who(lent: Lending) -> int:
    ((pid,),) = await lent.fetch(WHO)
    return int(pid)


async def test_the_one_connection_of_a_pool_serves_all_who_wait(lent: Lending) -> None:
    async def transact() -> int:
        async with lent.connection() as connection, connection.transaction():
            await asyncio.sleep(0)
            return int(await connection.fetchval(WHO))

    async with asyncio.timeout(10):
        pids = await asyncio.gather(*(transact() if n % 2 else who(lent) for n in range(20)))
    assert len(set(pids)) == 1


async def test_a_connection_that_the_server_has_ended_is_replaced(lent: Lending, postgres_url: str) -> None:
    first = await who(lent)
    other = await asyncpg.connect(postgres_url)
    try:
        await other.fetch("SELECT pg_terminate_backend($1, 5000)", first)
    finally:
        await other.close()
    try:
        second = await who(lent)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):  # it may be told only by the next statement
        second = await who(lent)
    assert second != first


async def test_a_connection_that_was_lost_as_it_lay_there_is_noticed_by_nobody(lent: Lending) -> None:
    first = await who(lent)
    connection, _ = lent._at_hand[-1]
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    connection.terminate()
    await lost.wait()
    assert await who(lent) != first


async def test_a_connection_that_is_lost_as_it_goes_back_is_nobodys_misuse(lent: Lending) -> None:
    """The pool hears of the loss first, and then says that somebody gives back what he does not have."""
    await who(lent)
    ((connection, _),) = lent._at_hand
    asyncio.get_running_loop().call_soon(connection.terminate)
    await lent.close()


async def test_who_loses_a_connection_in_a_transaction_hears_why(lent: Lending) -> None:
    async def lose() -> None:
        async with lent.connection() as connection:
            asyncio.get_running_loop().call_soon(connection.terminate)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lose()
    assert await who(lent)


async def test_a_connection_that_was_idle_too_long_is_not_used(lent: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await who(lent)
    assert await who(lent) == first
    monkeypatch.setattr(lending, "STALE_SECONDS", 0.0)
    assert await who(lent) != first


async def test_a_cancelled_statement_leaves_nothing_behind(lent: Lending) -> None:
    running = asyncio.create_task(lent.fetch("SELECT pg_sleep(60)"))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with asyncio.timeout(20):
        assert await who(lent)


async def test_a_transaction_that_failed_is_over_when_the_next_comes(lent: Lending) -> None:
    async def fail() -> None:
        async with lent.connection() as connection, connection.transaction():
            await connection.execute("CREATE TABLE left_behind (id integer)")
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await fail()
    assert await lent.fetch("SELECT to_regclass('left_behind')") == [(None,)]


@pytest.mark.parametrize("way", ["kept at hand", "given back to the pool", "cut in its rollback"])
async def test_a_transaction_that_was_left_open_is_over_when_the_next_comes(
    lent: Lending, pool: asyncpg.Pool[asyncpg.Record], postgres_url: str, way: str
) -> None:
    """What the next one writes would never be committed."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the driver says it, too
    if way == "kept at hand":
        async with lent.connection() as connection:
            await connection.execute("BEGIN")
    elif way == "given back to the pool":
        borrowed = await pool.acquire()
        await borrowed.execute("BEGIN")
        await pool.release(borrowed)
    else:
        await cut_in_its_rollback(lent)
    await lent.fetch("CREATE TABLE written_next (id integer)")
    other = await asyncpg.connect(postgres_url)
    assert await other.fetchval("SELECT to_regclass('written_next') IS NOT NULL")
    await other.close()


async def cut_in_its_rollback(lent: Lending) -> None:
    """Cancelled while a statement runs, and again while its cancellation is awaited, before the rollback is sent."""

    async def work() -> None:
        async with lent.connection() as connection, connection.transaction():
            begun.set()
            await connection.execute("SELECT pg_sleep(60)")

    begun = asyncio.Event()
    working = asyncio.create_task(work())
    await begun.wait()
    for _ in range(3):
        await asyncio.sleep(0)
        working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()


async def test_closing_waits_for_who_is_at_work_and_ends_them_all(
    lent: Lending, pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    await who(lent)
    running = asyncio.create_task(lent.fetch("SELECT pg_sleep(0.1)"))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await lent.close()
    assert len(await running) == 1
    with pytest.raises(asyncpg.InterfaceError):
        await pool.acquire()
