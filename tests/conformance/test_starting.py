"""Work that has begun: STARTED in the log, a longer lease, and nothing at all for a claim that is lost."""

import asyncio

import asyncpg
import pytest

from eventhub.core.lifecycle import State
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.postgres.publishing import SQL
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    MINUTE,
    actions,
    at,
    at_fence,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)
from tests.conformance.test_races_postgres import until_blocked


async def test_starting_logs_who_began_which_attempt_and_gives_the_lease_from_now_on(store: Store) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store, worker="worker-a"))
    claim = await take_one(store, at(5), worker="worker-b")
    assert await store.start([claim.held], seconds(300), now=at(10)) == set()
    entry = (await store.log(number))[-1]
    told = (entry.action, entry.worker, entry.attempt, entry.fence, entry.created_at, entry.delivery_id)
    assert told == ("STARTED", "worker-b", 2, 2, at(10), number)
    current = (await store.current([number]))[number]
    assert (current.state, current.due, current.fence, current.attempts) == (State.LEASED, at(310), 2, 2)
    assert await complete(store, claim, at(20))


async def test_what_is_lost_is_neither_logged_nor_lengthened(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(5)))
    claims = await take(store, 4)
    await complete(store, claims[1])
    await fail(store, claims[2], after=100)
    before = await store.current(numbers)
    held = [claims[0].held, claims[1].held, claims[2].held, at_fence(claims[3], 7), Held(numbers[4], 0), Held(10**9, 1)]
    assert await store.start(held, MINUTE, now=at(1)) == {each.id for each in held[1:]}
    after = await store.current(numbers)
    assert after.pop(numbers[0]).due == at(61)
    del before[numbers[0]]
    assert after == before
    logs = [await actions(store, number) for number in numbers]
    assert [log.count("STARTED") for log in logs] == [1, 0, 0, 0, 0]


async def test_starting_nothing_does_nothing(store: Store) -> None:
    assert await store.start([], MINUTE) == set()


async def test_an_ended_lease_is_saved_by_a_start_while_nobody_took_it(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    assert await store.start([claim.held], MINUTE, now=at(100)) == set()
    assert await take(store, now=at(160)) == []
    assert ids(await take(store, now=at(161))) == [number]
    assert await store.start([claim.held], MINUTE, now=at(162)) == {number}


async def test_without_a_time_the_databases_clock_counts(store: Store) -> None:
    number = await publish_one(store, now=None)
    claim = await take_one(store, None)
    before = await store.now()
    assert await store.start([claim.held], MINUTE) == set()
    after = await store.now()
    due = (await store.current([number]))[number].due
    assert due is not None
    assert before + MINUTE <= due <= after + MINUTE
    assert before <= (await store.log(number))[-1].created_at <= after


async def test_starts_race_with_the_sweep_and_each_claim_is_either_begun_or_abandoned(
    store: Store, open_another: OpenAnother
) -> None:
    others = [await open_another(), await open_another()]
    numbers = await publish(store, *(new() for _ in range(60)))
    claims = await take(store, 60)
    late = at(61)
    starts = asyncio.gather(*(store.start([claim.held], MINUTE, now=late) for claim in claims))
    await asyncio.gather(*(other.tend(now=late, limit=7) for other in others for _ in range(5)))
    gone = {number for lost in await starts for number in lost}
    current = await store.current(numbers)
    for number in numbers:
        began = number not in gone
        log = await actions(store, number)
        assert ("STARTED" in log, "ABANDONED" in log) == (began, not began)
        assert current[number].state is (State.LEASED if began else State.READY)


async def test_starts_and_heartbeats_at_the_same_moment_lose_no_claim(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    numbers = await publish(store, *(new() for _ in range(20)), now=None)
    held = [claim.held for claim in await take(store, 20, now=None)]
    calls = [each.start(held, MINUTE) for each in stores] + [each.extend(held[::-1], MINUTE) for each in stores]
    assert set().union(*await asyncio.gather(*calls)) == set()
    assert [(await actions(store, number)).count("STARTED") for number in numbers] == [3] * 20


@pytest.mark.parametrize("statement", ["extend", "start"])
async def test_a_start_that_waits_for_another_call_is_written_once(postgres_url: str, statement: str) -> None:
    async with open_store(postgres_url) as store:
        number = await publish_one(store, None)
        claim = await take_one(store, None)
        connection = await asyncpg.connect(postgres_url)
        try:
            other = connection.transaction()
            await other.start()
            await connection.fetch(getattr(SQL, statement), [number], [claim.held.fence], MINUTE, None)
            starting = asyncio.create_task(store.start([claim.held], MINUTE))
            await until_blocked(connection)
            await other.commit()
        finally:
            await connection.close()
        assert await starting == set()
        assert (await actions(store, number)).count("STARTED") == (1 if statement == "extend" else 2)
