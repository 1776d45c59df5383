"""What was copied to the lake is known, each range once; shared work is done by one."""

import asyncio
from datetime import timedelta

import asyncpg

from eventhub.store import Store, open_store
from eventhub.store.values import NewEvent, Route
from tests.conformance.conftest import OpenAnother

MINUTE = timedelta(minutes=1)


async def publish(store: Store, count: int = 3) -> None:
    await store.publish([NewEvent(type="a", payload="1", route=Route("work")) for _ in range(count)])


async def test_ranges_follow_each_other_and_a_new_one_waits_for_the_last(store: Store) -> None:
    assert await store.lake_commits("events") == []
    await publish(store)
    horizon = await store.horizon("events")
    first = await store.intend_commit("events", last=horizon)
    assert first is not None
    assert (first.number, first.first, first.last, first.done_at) == (1, 0, horizon, None)
    assert await store.intend_commit("events", last=horizon + 100) == first
    assert await store.finish_commit("events", 1, 3)
    assert not await store.finish_commit("events", 1, 3)
    assert await store.intend_commit("events", last=horizon) is None
    await publish(store)
    second = await store.intend_commit("events", last=horizon + 5)
    assert second is not None
    assert (second.number, second.first, second.last) == (2, horizon, horizon + 5)
    assert [commit.number for commit in await store.lake_commits("events")] == [2, 1]
    assert await store.lake_commits("event_log") == []


async def test_racing_intentions_are_one(store: Store, open_another: OpenAnother) -> None:
    others = [store, *[await open_another() for _ in range(4)]]
    commits = await asyncio.gather(*(one.intend_commit("events", last=10 + n) for n, one in enumerate(others)))
    assert len(set(commits)) == 1
    assert commits[0] is not None


async def test_nothing_appears_below_the_horizon(store: Store) -> None:
    for dataset in ("events", "event_log"):
        before = await store.horizon(dataset)
        await publish(store)
        assert await store.horizon(dataset) > before
    assert (await store.origin()).startswith(f"{store.engine}:")


async def test_one_holds_a_lock_until_it_lets_go_or_is_silent(store: Store, open_another: OpenAnother) -> None:
    now = await store.now()
    others = [store, *[await open_another() for _ in range(3)]]
    assert await store.lock_holder("pipeline") is None
    fences = await asyncio.gather(
        *(one.take_lock("pipeline", f"p{n}", MINUTE, now=now) for n, one in enumerate(others))
    )
    assert sorted(fences, key=lambda fence: fence is None) == [1, None, None, None]
    holder = await store.lock_holder("pipeline")
    assert holder is not None
    assert (holder.owner, holder.fence, holder.until) == (f"p{fences.index(1)}", 1, now + MINUTE)
    assert await store.keep_lock("pipeline", 1, MINUTE, now=now + MINUTE)
    assert await store.take_lock("pipeline", "other", MINUTE, now=now + 2 * MINUTE) is None
    later = now + 2 * MINUTE + timedelta(seconds=1)
    assert await store.take_lock("pipeline", "other", MINUTE, now=later) == 2
    assert not await store.keep_lock("pipeline", 1, MINUTE, now=later)
    await store.drop_lock("pipeline", 1)
    assert await store.take_lock("pipeline", "third", MINUTE, now=later) is None
    await store.drop_lock("pipeline", 2)
    assert not await store.keep_lock("pipeline", 2, MINUTE, now=later)
    assert await store.take_lock("pipeline", "third", MINUTE, now=later) == 3
    await store.drop_lock("pipeline", 3)
    assert await store.lock_holder("pipeline") is None
    assert await store.take_lock("pipeline", "late", MINUTE, now=now - 2 * MINUTE) == 4
    assert await store.lock_holder("pipeline") is None


async def test_what_waits_for_the_lake_is_counted(store: Store) -> None:
    before = await store.now()
    await publish(store)
    middle = await store.horizon("events"), await store.horizon("event_log")
    await publish(store, 2)
    everything = await store.waiting("events", 0)
    assert everything.rows == 5
    assert everything.oldest is not None
    assert before - MINUTE < everything.oldest < before + MINUTE
    assert (await store.waiting("events", middle[0])).rows == 2
    assert (await store.waiting("event_log", middle[1])).rows == 2
    assert (await store.waiting("events", 2**60)).oldest is None


async def test_a_transaction_that_writes_holds_the_horizon_back(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        await publish(store)
        writer = await asyncpg.connect(postgres_url)
        try:
            async with writer.transaction():
                await writer.execute("SELECT pg_current_xact_id()")
                first, second = await store.horizon_age(), await store.horizon_age()
                assert first is not None
                assert second is not None
                assert second > first
        finally:
            await writer.close()
