"""Moments that only several connections at once can make: transactions that stay open while others go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.errors import StoreBusy
from eventhub.store import Store, open_store
from eventhub.store.messages import DeadFilter
from eventhub.store.postgres.publishing import SQL
from eventhub.store.values import Report
from tests.conformance.support import MINUTE, QUEUE, complete, ids, kill, new, publish, publish_one, take, take_one


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


async def test_a_publisher_that_commits_late_with_a_lower_id_is_not_passed_over(postgres_store: Store) -> None:
    store = postgres_store
    await publish_one(store, None)
    await complete(store, await take_one(store, None), None)
    late = await asyncpg.connect(store.url)
    transaction = late.transaction()
    await transaction.start()
    (low,) = await store.publish([new(payload="late")], connection=late)
    high = await publish(store, *(new() for _ in range(3)), now=None)
    assert low.id < high[0]
    claims = await take(store, 2, now=None)
    assert ids(claims) == high[:2]
    await transaction.commit()
    await late.close()
    seen = []
    while claims := await take(store, 1, now=None):
        seen += ids(claims)
    assert sorted(seen) == [low.id, high[2]]


async def test_a_late_publisher_of_a_key_takes_its_turn(postgres_store: Store, postgres_url: str) -> None:
    store = postgres_store
    late = await asyncpg.connect(store.url)
    transaction = late.transaction()
    await transaction.start()
    (low,) = await store.publish([new(key="k")], connection=late)
    waiting = asyncio.create_task(publish_one(store, None, key="k"))
    await until_blocked(late)
    await publish_one(store, None)
    async with open_store(postgres_url) as elsewhere:
        await publish_one(elsewhere, None, key="other")
    assert not waiting.done(), "only who comes to the same key waits for the open transaction"
    await transaction.commit()
    await late.close()
    high = await waiting
    seen = []
    while claims := await take(store, 10, now=None):
        seen += [claim.event.id for claim in claims if claim.event.ordering_key == "k"]
        await store.settle([Report(claim.held, Complete()) for claim in claims])
    assert seen == [low.id, high]


@pytest.mark.parametrize("details", [{"idempotency_key": "k"}, {"key": "k"}], ids=["idempotency key", "ordering key"])
async def test_who_uses_no_keys_never_waits_for_those_who_do(postgres_store: Store, details: dict[str, Any]) -> None:
    store = postgres_store
    outbox = await asyncpg.connect(store.url)
    transaction = outbox.transaction()
    await transaction.start()
    await store.publish([new(**details)], connection=outbox)
    waiting = []
    for number in (1, 2):  # as many as are written at a time: one more of them would have to queue
        waiting.append(asyncio.create_task(publish_one(store, None, **details)))
        await until_blocked(outbox, number)
    async with asyncio.timeout(20):
        plain = await asyncio.gather(*(publish_one(store, None) for _ in range(10)))
    assert not any(task.done() for task in waiting)
    assert set(plain) <= set(ids(await take(store, 100, now=None)))
    await transaction.rollback()
    await outbox.close()
    await asyncio.gather(*waiting)


async def test_a_key_whose_event_is_purged_at_this_moment_is_free_again(postgres_store: Store) -> None:
    store = postgres_store
    gone = await kill(store, idempotency_key="a", now=None)
    call = [new(idempotency_key="a"), new(payload="other", idempotency_key="b")]
    async with purged_in_the_middle(store) as meanwhile:
        publishing = asyncio.create_task(store.publish(call))
        await meanwhile()
        first, second = await publishing
    assert not first.duplicate
    assert not second.duplicate
    assert first.id > gone
    again = await store.publish(call)
    assert [(each.id, each.duplicate) for each in again] == [(first.id, True), (second.id, True)]


async def test_a_key_purged_at_this_moment_asks_the_callers_transaction_to_be_tried_again(
    postgres_store: Store,
) -> None:
    store = postgres_store
    await kill(store, idempotency_key="a", now=None)
    call = [new(idempotency_key="a"), new(payload="other", idempotency_key="b")]
    outbox = await asyncpg.connect(store.url)
    async with purged_in_the_middle(store) as meanwhile:
        transaction = outbox.transaction()
        await transaction.start()
        publishing = asyncio.create_task(store.publish(call, connection=outbox))
        await meanwhile()
        with pytest.raises(StoreBusy, match=r"became free while it was being used again\. Try again"):
            await publishing
        await transaction.rollback()
    async with outbox.transaction():
        published = await store.publish(call, connection=outbox)
    await outbox.close()
    assert not any(each.duplicate for each in published)


@asynccontextmanager
async def purged_in_the_middle(store: Store) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A publisher that has seen that "a" is taken is held up at "b"; then "a" is purged and "b" let go."""
    foreign = await asyncpg.connect(store.url)
    transaction = foreign.transaction()
    await transaction.start()
    await foreign.execute("INSERT INTO eventhub.idempotency_keys VALUES ($1, 'b', 0, now())", QUEUE)

    async def meanwhile() -> None:
        await until_blocked(foreign)
        assert await store.purge_dead(older_than=timedelta(0)) == 1
        await transaction.rollback()

    yield meanwhile
    await foreign.close()


PURGES: dict[str, Callable[[Store], Awaitable[int]]] = {
    "by age": lambda store: store.purge_dead(older_than=timedelta(days=1)),
    "by filter": lambda store: store.purge_dead_where(DeadFilter()),
}


@pytest.mark.parametrize("purge", PURGES.values(), ids=PURGES.keys())
async def test_a_letter_of_which_somebody_tells_just_now_is_purged_all_the_same(
    postgres_store: Store, purge: Callable[[Store], Awaitable[int]]
) -> None:
    store = postgres_store
    for _ in range(2):
        await kill(store)
    teller = await asyncpg.connect(store.url)
    async with teller.transaction():
        await teller.execute("UPDATE eventhub.dead_letters SET announced = true WHERE id = 1")
        purging = asyncio.ensure_future(purge(store))
        await until_blocked(teller)
    assert await purging == 2
    assert await teller.fetchval("SELECT count(*) FROM eventhub.dead_letters") == 0
    assert await teller.fetchval("SELECT count(*) FROM eventhub.events") == 0
    await teller.close()


@pytest.mark.parametrize("purge", PURGES.values(), ids=PURGES.keys())
async def test_a_letter_that_somebody_retries_just_now_is_not_purged_as_dead(
    postgres_store: Store, purge: Callable[[Store], Awaitable[int]]
) -> None:
    store = postgres_store
    revived, gone = [await kill(store) for _ in range(2)]
    operator = await asyncpg.connect(store.url)
    async with operator.transaction():
        await operator.fetch(SQL.dead_standing, [revived])
        await operator.execute(SQL.close_dead, [1], "anna", None)
        await operator.fetch(SQL.revive, [1], "anna", None)
        purging = asyncio.ensure_future(purge(store))
        await until_blocked(operator)
    assert await purging == 1
    assert await operator.fetchval("SELECT count(*) FROM eventhub.events WHERE id = $1", gone) == 0
    kept = await operator.fetch("SELECT delivery_id, retried_by FROM eventhub.dead_letters")
    assert [tuple(row) for row in kept] == [(revived, "anna")]
    await operator.close()
    assert ids(await take(store, 10, now=None)) == [revived]


async def test_two_who_purge_the_last_letters_of_an_event_leave_nothing_of_it(postgres_store: Store) -> None:
    store = postgres_store
    number = await kill(store, now=None)
    other = await asyncpg.connect(store.url)
    columns = "route, fence, attempts, failures, parks, reason, status, dead_at, type, payload, created_at, announced"
    await other.execute(
        f"INSERT INTO eventhub.dead_letters (delivery_id, event_id, {columns})"
        f" SELECT delivery_id + 1000, event_id, {columns} FROM eventhub.dead_letters"
    )
    async with other.transaction():
        events = [row[0] for row in await other.fetch(SQL.purge, [2])]
        await other.fetch(SQL.hold_events, events)
        await other.execute(SQL.delete_events, events)
        purging = asyncio.create_task(store.purge_dead_where(DeadFilter(ids=(number,))))
        await until_blocked(other)
    assert await purging == 1
    assert await other.fetchval("SELECT count(*) FROM eventhub.events") == 0
    await other.close()


@pytest.mark.parametrize("tags", [1, 3], ids=["one route", "several routes"])
async def test_a_claim_steps_over_what_others_hold_just_now(postgres_store: Store, tags: int) -> None:
    store = postgres_store
    numbers = await publish(store, *(new(tags=(f"t{n % tags}",)) for n in range(9)), now=None)
    other = await asyncpg.connect(store.url)
    async with other.transaction():
        await other.execute("SELECT FROM eventhub.deliveries WHERE id = ANY ($1) FOR UPDATE", numbers[:6])
        claims = await take(store, 2, now=None)
        claims += await take(store, 2, now=None)
        assert sorted(ids(claims)) == numbers[6:]
        assert await take(store, 2, now=None) == []
    await other.close()
    assert ids(await take(store, 10, now=None)) == numbers[:6]


@pytest.mark.parametrize(
    "outcome", [Bury("bad"), Retry("later"), Release(), Complete()], ids=lambda o: type(o).__name__
)
async def test_a_report_that_waits_for_a_heartbeat_leaves_exactly_one_state(
    postgres_store: Store, postgres_url: str, outcome: Outcome
) -> None:
    store = postgres_store
    number = await publish_one(store, max_attempts=3, now=None)
    (claim,) = await store.claim(QUEUE, worker="w", lease=MINUTE)
    connection = await asyncpg.connect(postgres_url)
    try:
        heartbeat = connection.transaction()
        await heartbeat.start()
        await connection.fetch(SQL.extend, [number], [claim.held.fence], MINUTE, None)
        reporting = asyncio.create_task(store.settle([Report(claim.held, outcome)]))
        await until_blocked(connection)
        await heartbeat.commit()
    finally:
        await connection.close()
    (settled,) = await reporting
    assert settled.accepted
    dead = (await store.dead(queue=QUEUE)).total
    open_still = number in await store.current([number])
    assert (dead, open_still) == {Bury: (1, False), Complete: (0, False)}.get(type(outcome), (0, True))


async def test_the_order_of_a_key_is_the_order_of_its_ids_even_when_one_has_to_wait(
    postgres_store: Store, postgres_url: str
) -> None:
    store = postgres_store
    await publish_one(store, now=None)
    connection = await asyncpg.connect(postgres_url)
    try:
        foreign = connection.transaction()
        await foreign.start()
        await connection.execute("INSERT INTO eventhub.idempotency_keys VALUES ($1, 'x', 0, now())", QUEUE)
        first = asyncio.create_task(publish_one(store, payload="one", key="k", idempotency_key="x", now=None))
        await until_blocked(connection)
        second = asyncio.create_task(publish_one(store, payload="two", key="k", now=None))
        await until_blocked(connection, 2)
        await foreign.rollback()
    finally:
        await connection.close()
    numbers = {await first: "one", await second: "two"}
    seen = []
    for _ in numbers:
        claims = [c for c in await store.claim(QUEUE, worker="w", lease=MINUTE, limit=5) if c.event.ordering_key]
        seen += [claim.event.id for claim in claims]
        await store.settle([Report(claim.held, Complete()) for claim in claims])
    assert seen == sorted(numbers)


async def until_blocked(connection: "asyncpg.Connection[asyncpg.Record]", count: int = 1) -> None:
    """Until so many backends wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while await connection.fetchval(waiting) < count:
        await connection.execute("SELECT pg_stat_clear_snapshot()")


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ("due = due + interval '1 minute'", True),
        ("fence = fence + 1, attempts = attempts + 1", False),
        ("state = 0, due = NULL", False),
    ],
    ids=["extended", "claimed by another", "taken back"],
)
async def test_a_completion_judges_a_row_that_changed_while_it_waited(
    postgres_store: Store, change: str, *, accepted: bool
) -> None:
    store = postgres_store
    await publish(store, *(new() for _ in range(3)), now=None)
    claims = await take(store, 3, now=None)
    middle = claims[1].held.id
    other = await asyncpg.connect(store.url)
    async with other.transaction():
        await other.execute(f"UPDATE eventhub.deliveries SET {change} WHERE id = $1", middle)
        settling = asyncio.create_task(store.settle([Report(claim.held, Complete(1)) for claim in claims]))
        await until_blocked(other)
    await other.close()
    answers = await settling
    assert [answer.accepted for answer in answers] == [True, accepted, True]
    assert (await store.log(middle))[-1].action == ("COMPLETED" if accepted else "PICKED")
    assert (middle in await store.current([middle])) is not accepted


@pytest.mark.parametrize("lengthen", ["extend", "start"])
async def test_completing_and_lengthening_may_wait_for_each_other_in_a_circle(
    postgres_store: Store, lengthen: str
) -> None:
    """Completions take rows as they lie, and leases are lengthened in the order of ids: neither caller hears of it."""
    store = postgres_store
    await publish(store, *(new() for _ in range(3)), now=None)
    first, second, third = (claim.held for claim in await take(store, 3, now=None))
    await store.extend([first], MINUTE)  # its row lies behind the others now
    other = await asyncpg.connect(store.url)
    async with other.transaction():
        await other.execute("SELECT 1 FROM eventhub.deliveries WHERE id = $1 FOR UPDATE", third.id)
        settling = asyncio.create_task(store.settle([Report(held, Complete(1)) for held in (first, second, third)]))
        await until_blocked(other)
        longer = asyncio.create_task(getattr(store, lengthen)([first, second], MINUTE))
        await until_blocked(other, 2)
    await other.close()
    assert [answer.accepted for answer in await settling] == [True] * 3
    assert await longer in (set(), {first.id, second.id})
    assert await store.current([first.id, second.id, third.id]) == {}
