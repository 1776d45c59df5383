"""Idempotency keys belong to who publishes, outlive their event for a set time, and then may be used again."""

import pytest

from eventhub.core.lifecycle import Complete, Retry
from eventhub.errors import IdempotencyConflict
from eventhub.store import Store
from tests.conformance.support import START, at, bury, complete, new, publish, publish_one, report, seconds, take_one
from tests.conformance.test_pruning import positions

WEEK = seconds(7 * 86_400)


async def free(store: Store, now: float) -> int:
    return await store.free_keys(WEEK, now=at(now))


async def test_each_publisher_has_keys_of_its_own(store: Store) -> None:
    mine = await publish_one(store, idempotency_key="k", publisher="shop")
    other = await publish_one(store, idempotency_key="k", publisher="till", payload={"n": 2})
    nobodys = await publish_one(store, idempotency_key="k", payload={"n": 3})
    assert len({mine, other, nobodys}) == 3
    batch = [new(idempotency_key="k", publisher="shop"), new(idempotency_key="k", publisher="till", payload={"n": 2})]
    assert await publish(store, *batch) == [mine, other]
    with pytest.raises(IdempotencyConflict):
        await publish_one(store, idempotency_key="k", publisher="shop", payload={"n": 2})


async def test_an_event_remembers_its_publisher(store: Store) -> None:
    with_key, without = await publish(store, new(publisher="the “shop” 🙂"), new())
    found = [await store.event(number) for number in (with_key, without)]
    assert [event.published_by for event in found if event is not None] == ["the “shop” 🙂", None]


async def test_a_key_lasts_for_its_time_after_the_event_has_ended(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k")
    claim = await take_one(store, at(100))
    assert (await report(store, claim, Complete(), now=at(130))).accepted
    week = WEEK.total_seconds()
    assert await free(store, week + 130) == 0
    assert await publish_one(store, at(week), idempotency_key="k") == number
    assert await free(store, week + 130.5) == 1
    assert await publish_one(store, at(week + 131), idempotency_key="k") != number


async def test_the_key_of_an_open_event_is_never_freed(store: Store) -> None:
    waiting = await publish_one(store, idempotency_key="a")
    await report(store, await take_one(store), Retry("later", seconds(5)))
    broadcast = await publish_one(store, idempotency_key="b", work=False, broadcast=True)
    assert await free(store, 400 * 86_400) == 0
    assert await publish_one(store, idempotency_key="a") == waiting
    assert await publish_one(store, idempotency_key="b", work=False, broadcast=True) == broadcast


async def test_a_dead_event_has_ended_and_one_that_was_retried_has_not(store: Store) -> None:
    numbers = [await publish_one(store, idempotency_key=key) for key in "ab"]
    for _ in numbers:
        await bury(store, await take_one(store))
    await store.retry_dead([numbers[1]], by="anna", now=START)
    assert await free(store, 8 * 86_400) == 1
    assert await publish_one(store, idempotency_key="b") == numbers[1]
    assert await publish_one(store, idempotency_key="a") != numbers[0]


async def test_a_key_outlives_an_archived_event(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k", publisher="shop")
    assert await complete(store, await take_one(store))
    assert await store.prune_events([number], **await positions(store)) == 1
    (again,) = await store.publish([new(idempotency_key="k", publisher="shop")], now=at(5))
    assert (again.id, again.created_at, again.duplicate) == (number, START, True)
    with pytest.raises(IdempotencyConflict):
        await publish_one(store, idempotency_key="k", publisher="shop", payload={"n": 2})
    archived_at = (await store.now() - START).total_seconds()
    assert await free(store, archived_at + 6 * 86_400) == 0
    assert await free(store, archived_at + 8 * 86_400) == 1


async def test_many_keys_of_one_moment_are_all_looked_at(store: Store) -> None:
    open_ones = [new(idempotency_key=f"o{n}") for n in range(1500)]
    await publish(store, *open_ones)
    ended = [new(idempotency_key=f"e{n}", completed=True, work=False) for n in range(3000)]
    await publish(store, *ended)
    assert await free(store, 8 * 86_400) == 3000
    assert await free(store, 8 * 86_400) == 0
