"""Ordering keys while a session holds an old snapshot: what a claim and its reports touch does not grow with what has
been drained meanwhile, though nothing of it can be cleaned away. Blocks are counted, not seconds.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from eventhub.core.lifecycle import Complete
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.postgres import floors
from eventhub.store.values import NewEvent, Report, Route
from tests.conformance.hub_support import claim, plan, subscriber
from tests.plans.test_postgres_plans import STILL

KEYS = 20
ROUNDS = 120
"""Of one event of each key; a scan that steps over what has gone takes many times as many blocks at the end."""
SOME = 10
"""Rounds that are compared."""
LEASE = timedelta(minutes=5)
BLOCKS = """
SELECT sum(pg_stat_get_blocks_fetched(oid) + pg_stat_get_xact_blocks_fetched(oid))::bigint, pg_backend_pid()
FROM pg_class WHERE relnamespace = 'eventhub'::regnamespace AND relkind IN ('r', 'i')
"""
ENTRIES = """
SELECT (pg_stat_get_tuples_returned(oid) + pg_stat_get_xact_tuples_returned(oid))::bigint, pg_backend_pid()
FROM pg_class WHERE oid = 'eventhub.deliveries_ready'::regclass
"""
"""Of the index that claims go by, dead ones as well: many of them are in one block."""
Take = Callable[[], Awaitable[list[Held]]]


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Any]:
    async with open_store(postgres_url, pool_size=1) as opened:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(STILL)
        yield opened
        await connection.close()


@pytest.fixture
async def snapshot(postgres_url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    connection = await asyncpg.connect(postgres_url)

    async def hold() -> None:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.execute("SELECT count(*) FROM eventhub.meta")

    yield hold
    await connection.close()


def _one_of_each(*, broadcast: bool = False) -> list[NewEvent]:
    return [_event(f"key {key}", broadcast=broadcast) for key in range(KEYS)]


def _event(key: str, *, broadcast: bool = False) -> NewEvent:
    return NewEvent(
        type="order.placed",
        payload='{"n":1}',
        route=Route("work"),
        ordering_key=key,
        broadcast=broadcast,
        work=not broadcast,
    )


async def _count(store: Any, what: str = BLOCKS) -> tuple[int, int]:
    ((count, process),) = await store._read(what)
    return count, process


async def _drained(store: Any, take: Take, what: str = BLOCKS) -> list[int]:
    """The blocks that each round touched, or something else that it did."""
    costs = []
    for _ in range(ROUNDS):
        before, process = await _count(store, what)
        held = await take()
        assert len(held) == KEYS
        assert all(settled.accepted for settled in await store.settle([Report(one, Complete()) for one in held]))
        after, again = await _count(store, what)
        assert process == again, "what another connection does is not counted"
        costs.append(after - before)
    assert not await take()
    return costs


def _judge(costs: list[int]) -> None:
    first, last = sorted(costs[1 : SOME + 1])[SOME // 2], sorted(costs[-SOME:])[SOME // 2]
    assert last <= 1.5 * first, f"{first} for a round at first, {last} after {ROUNDS} rounds"


async def _work(store: Store) -> list[Held]:
    return [claim.held for claim in await store.claim("work", worker="w", lease=LEASE, limit=KEYS)]


async def test_draining_ordered_work_costs_the_same_after_much_was_drained(store: Any, snapshot: Any) -> None:
    for _ in range(ROUNDS):
        await store.publish(_one_of_each())
    await snapshot()
    _judge(await _drained(store, lambda: _work(store)))


async def test_claiming_does_not_step_over_what_lies_between_a_slow_key_and_the_others(
    store: Any, snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of one key is older than all of the others, so what is ready lies further and further apart."""
    monkeypatch.setattr(floors, "LOOK_EVERY", 1e9)  # looks from below cost what they cost, and are rationed by time
    monkeypatch.setattr(floors, "LATEST", 1e9)
    await store.publish([_event("key 0") for _ in range(ROUNDS)])
    for _ in range(ROUNDS):
        await store.publish(_one_of_each()[1:])
    await snapshot()
    _judge(await _drained(store, lambda: _work(store), ENTRIES))


async def test_draining_ordered_messages_costs_the_same_after_much_was_drained(store: Any, snapshot: Any) -> None:
    number = await subscriber(store)
    for _ in range(ROUNDS):
        await store.publish(_one_of_each(broadcast=True))
    wanted = await plan(store, number, keyed=True)
    while (await store.fan_out(wanted)).more:
        pass
    await snapshot()

    async def take() -> list[Held]:
        return [message.held for message in await claim(store, number, most=KEYS)]

    _judge(await _drained(store, take))


async def test_publishing_behind_a_head_costs_the_same_after_much_was_published(store: Any, snapshot: Any) -> None:
    """Each key has two events from the beginning, and gets one for each that leaves."""
    for _ in range(2):
        await store.publish(_one_of_each())
    await snapshot()
    costs = []
    for _ in range(ROUNDS):
        before, process = await _count(store)
        await store.publish(_one_of_each())
        held = await _work(store)
        await store.settle([Report(one, Complete()) for one in held])
        after, again = await _count(store)
        assert (process, len(held)) == (again, KEYS)
        costs.append(after - before)
    _judge(costs)
