"""Letting go of old history: what is settled and copied leaves, whatever is open or newer stays, in any race."""

import asyncio
from datetime import date, timedelta
from typing import Any

import asyncpg
import pytest

from eventhub.core.lifecycle import Complete
from eventhub.store import Store
from eventhub.store.pruning import OldDay
from eventhub.store.values import Report
from tests.conformance import hub_support as hub
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import START, at, bury, complete, kill, new, publish, publish_one, take, take_one

DAY = START.date()
DAYS = 86_400.0
FAR = 2**62


async def positions(store: Store) -> dict[str, int]:
    """Everything that is there now counts as copied, once no transaction elsewhere holds the horizon back."""
    while True:
        events, log = await store.horizon("events"), await store.horizon("event_log")
        if not ((await store.waiting("events", events)).rows or (await store.waiting("event_log", log)).rows):
            return {"copied": events, "log_copied": log}
        await asyncio.sleep(0.01)


async def settled(store: Store, count: int, *, now: Any = START, **details: Any) -> list[int]:
    numbers = await publish(store, *(new(**details) for _ in range(count)), now=now)
    claims = await take(store, count, now=now)
    await store.settle([Report(claim.held, Complete()) for claim in claims], now=now)
    return numbers


async def newest(store: Store) -> int:
    """One more event, much later: in SQLite the last row of the log always stays."""
    return await publish_one(store, now=at(50 * DAYS))


async def log_rows(store: Store, *numbers: int) -> list[tuple[int, int]]:
    return [(entry.id, entry.event_id) for number in numbers for entry in await store.log(number)]


async def test_settled_events_leave_with_all_that_belongs_to_them(store: Store) -> None:
    first, second = await publish(
        store, new(idempotency_key="once"), new(idempotency_key="twice", type_="b"), now=START
    )
    assert await store.guard(first, "step")
    assert await complete(store, await take_one(store))
    where = await positions(store)
    assert await store.prune_events([first, second], **where) == 1
    assert await store.event(first) is None
    assert await store.event(second) is not None
    assert not await store.is_guarded(first, "step")
    assert await store.free_keys(timedelta(0), now=at(40_000 * DAYS)) == 1, "a key outlives its event"
    again = await publish(store, new(idempotency_key="once"), now=at(40 * DAYS))
    assert again[0] > second
    assert await publish(store, new(idempotency_key="twice", type_="b"), now=at(40 * DAYS)) == [second]
    assert await store.prune_events([first], **where) == 0


async def test_nothing_open_leaves(store: Store) -> None:
    ready, leased, waiting, _ = await publish(
        store, new(), new(), new(delay=timedelta(hours=1)), new(key="k"), now=START
    )
    dead = await kill(store)
    parked = await kill(store, key="held", park_when_dead=True)
    marker = (await hub.broadcast(store, "{}"))[0].id
    whom = await hub.subscriber(store)
    sent = (await hub.broadcast(store, "{}", targets=(whom,)))[0].id
    await store.fan_out(await hub.plan(store, whom))
    assert ready < leased < waiting
    everything = [ready, leased, waiting, dead, parked, marker, sent]
    assert await store.prune_events(everything, **await positions(store)) == 0
    days = await store.old_event_days(await store.now() + timedelta(days=1))
    assert sum(day.rows for day in days) == sum(day.staying for day in days) == 8


async def test_what_the_lake_lacks_stays(store: Store) -> None:
    before = await positions(store)
    (number,) = await settled(store, 1)
    after = await positions(store)
    assert await store.prune_events([number], copied=before["copied"], log_copied=FAR) == 0
    assert await store.prune_events([number], copied=FAR, log_copied=before["log_copied"]) == 0
    assert await store.prune_events([number], **after) == 1


async def test_a_row_that_came_after_the_comparison_keeps_its_event(store: Store) -> None:
    """The dead letter is retried and settled again between the comparison with the lake and the end of its event."""
    number = await kill(store)
    compared = await positions(store)
    assert await store.retry_dead([number], by="me", now=at(40 * DAYS)) == {number}
    assert await store.prune_events([number], **compared) == 0
    assert await complete(store, await take_one(store, now=at(40 * DAYS)), now=at(40 * DAYS))
    assert await store.prune_events([number], **compared) == 0
    assert await store.prune_events([number], **await positions(store)) == 1


async def test_a_dead_letter_is_retried_while_its_day_is_pruned(store: Store, open_another: OpenAnother) -> None:
    """Whoever wins: the delivery that came back has its event, and is claimed and completed."""
    other = await open_another()
    dead = [await kill(store, key=f"k{number % 3}" if number % 2 else None) for number in range(12)]
    done = await settled(store, 12)
    where = await positions(store)
    everything = sorted(dead + done)

    async def prune() -> int:
        gone = 0
        for first in range(0, len(everything), 4):
            gone += await other.prune_events(everything[first : first + 4], **where)
        return gone

    async def retry() -> None:
        for number in dead:
            assert await store.retry_dead([number], by="me", now=at(40 * DAYS)) == {number}

    gone, again, _ = await asyncio.gather(prune(), prune(), retry())
    assert gone + again == 12
    found: list[int] = []
    while claims := await take(store, 100, now=at(40 * DAYS)):
        found += [claim.event.id for claim in claims]
        for claim in claims:
            assert await complete(store, claim, now=at(40 * DAYS))
    assert sorted(found) == dead
    assert await store.prune_events(everything, **where) == 0
    assert await store.prune_events(everything, **await positions(store)) == 12


async def test_the_successor_of_a_key_outlives_its_head(store: Store) -> None:
    """A key whose first event is settled and pruned hands its lane on as if nothing had happened."""
    head, behind = await publish(store, new(key="k"), new(key="k"), now=START)
    assert await complete(store, await take_one(store))
    assert await store.prune_events([head, behind], **await positions(store)) == 1
    claim = await take_one(store, now=at(1))
    assert claim.event.id == behind
    assert await bury(store, claim, now=at(1))
    assert await store.retry_dead([behind], by="me", now=at(2)) == {behind}
    assert (await take_one(store, now=at(3))).event.ordering_key == "k"


async def test_a_key_is_used_again_while_its_event_is_pruned(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    for turn in range(10):
        (number,) = await settled(store, 1, idempotency_key=f"k{turn}", now=at(turn))
        where = await positions(store)
        gone, answer = await asyncio.gather(
            other.prune_events([number], **where), store.publish([new(idempotency_key=f"k{turn}")])
        )
        assert gone == 1
        assert (answer[0].id, answer[0].duplicate) == (number, True)


async def test_log_rows_leave_after_their_event(store: Store) -> None:
    gone, kept = [(await settled(store, 1))[0] for _ in range(2)]
    await newest(store)
    rows = await log_rows(store, gone, kept)
    where = await positions(store)
    assert await store.prune_log(DAY, rows, copied=where["log_copied"]) == 0
    assert await store.prune_events([gone], **where) == 1
    assert await store.events_with_log(DAY) == [kept]
    assert await store.events_with_log(date(2026, 1, 2)) == []
    assert await store.old_log_days(at(DAYS)) == [OldDay(DAY, 6, rows[0][0], rows[-1][0], 3)]
    assert await store.prune_log(DAY, rows, copied=rows[0][0] if store.engine == "sqlite" else 0) == 0
    assert await store.prune_log(date(2026, 1, 2), rows, copied=where["log_copied"]) == 0
    assert await store.prune_log(DAY, rows[:1], copied=where["log_copied"]) == 1
    assert await store.prune_log(DAY, rows, copied=where["log_copied"]) == 2
    assert (await store.log(gone), len(await store.log(kept))) == ([], 3)


async def test_ids_of_the_log_never_come_again(store: Store) -> None:
    (number,) = await settled(store, 1)
    where = await positions(store)
    rows = await log_rows(store, number)
    assert await store.prune_events([number], **where) == 1
    await store.prune_log(DAY, rows, copied=where["log_copied"])
    assert await store.horizon("event_log") >= where["log_copied"]
    later = await publish_one(store, now=at(1))
    assert (await store.log(later))[0].id > rows[-1][0]


@pytest.fixture
async def partitioned(store: Store) -> Store:
    """The old day has a partition of its own, where there are any."""
    if store.engine == "postgres":
        connection = await asyncpg.connect(store.url)
        await connection.execute("SELECT eventhub.make_log_days('2026-01-01', 1)")
        await connection.close()
    return store


async def test_a_day_of_the_log_is_dropped_when_nothing_of_it_must_stay(partitioned: Store) -> None:
    store = partitioned
    numbers = await settled(store, 5)
    dead = await kill(store)
    await newest(store)
    where = await positions(store)
    assert await store.prune_events([*numbers, dead], **where) == 5
    log_copied = where["log_copied"]
    for rows in (15, 19):
        assert not await store.drop_log_day(DAY, rows, copied=log_copied)
    assert await store.purge_dead(older_than=timedelta(0), now=at(0)) == 1
    for rows, copied in ((18, log_copied), (20, log_copied), (19, 0)):
        assert not await store.drop_log_day(DAY, rows, copied=copied)
    assert not await store.drop_log_day(date(2026, 1, 2), 0, copied=log_copied)
    dropped = await store.drop_log_day(DAY, 19, copied=log_copied)
    assert dropped == (store.engine == "postgres")
    assert len(await log_rows(store, *numbers, dead)) == (0 if dropped else 19)
    assert not await store.drop_log_day(DAY, 0, copied=log_copied)
    assert await store.horizon("event_log") >= log_copied


async def test_a_day_that_somebody_reads_is_not_waited_for(partitioned: Store) -> None:
    """A long read of the log must not make all publishers wait behind the drop."""
    store = partitioned
    numbers = await settled(store, 2)
    await newest(store)
    where = await positions(store)
    await store.prune_events(numbers, **where)
    if store.engine == "sqlite":
        assert not await store.drop_log_day(DAY, 6, copied=where["log_copied"])
        return
    connection = await asyncpg.connect(store.url)
    async with connection.transaction():
        await connection.fetch("SELECT * FROM eventhub.event_log")
        assert not await store.drop_log_day(DAY, 6, copied=where["log_copied"])
    await connection.close()
    assert await store.drop_log_day(DAY, 6, copied=where["log_copied"])
