"""A clock that is set back: who was told to wait still waits that long, who was given a time waits for that time."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from eventhub.store import Store
from eventhub.store.values import NewEvent, Route
from tests.conformance.conftest import OpenAnother
from tests.conformance.hub_support import claim, plan, subscriber
from tests.conformance.support import (
    QUEUE,
    at,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    release,
    seconds,
    take,
    take_one,
)

HOUR = 3600.0


async def retry_scheduled(store: Store, **details: Any) -> int:
    """An event whose retry is due in 30 seconds, as a sweep has seen."""
    number = await publish_one(store, **details)
    assert await fail(store, await take_one(store), after=30)
    assert (await store.tend(now=at(0))).total == 0
    return number


async def set_back(store: Store, seconds_ago: float = HOUR) -> None:
    """The next sweep, a moment later, finds the clock that much lower."""
    assert (await store.tend(now=at(-seconds_ago))).total == 0


async def test_a_retry_waits_as_long_as_it_was_told(store: Store) -> None:
    number = await retry_scheduled(store)
    await set_back(store)
    assert await take(store, now=at(29 - HOUR)) == []
    assert ids(await take(store, now=at(30 - HOUR))) == [number]


async def test_a_release_and_a_delay_do_likewise(store: Store) -> None:
    released = await publish_one(store)
    assert await release(store, await take_one(store), after=20)
    delayed = await publish_one(store, delay=seconds(25))
    assert (await store.tend(now=at(0))).total == 0
    await set_back(store)
    assert await take(store, now=at(19 - HOUR)) == []
    assert ids(await take(store, now=at(20 - HOUR))) == [released]
    assert ids(await take(store, now=at(25 - HOUR))) == [delayed]


async def test_a_lease_ends_after_its_length(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store, lease=seconds(60))
    assert (await store.tend(now=at(0))).total == 0
    await set_back(store)
    assert (await store.tend(now=at(60 - HOUR))).total == 0
    assert (await store.tend(now=at(61 - HOUR))).abandoned == 1
    assert ids(await take(store, now=at(61 - HOUR))) == [number]


async def test_what_was_asked_for_at_a_time_waits_for_that_time(store: Store) -> None:
    number = await publish_one(store, deliver_at=at(30))
    assert (await store.tend(now=at(0))).total == 0
    await set_back(store)
    assert await take(store, now=at(40 - HOUR)) == []
    assert await take(store, now=at(20)) == []
    claim = await take_one(store, now=at(30))
    assert claim.event.id == number
    assert await fail(store, claim, after=10, now=at(30))  # its retry is scheduled by a wait, as any other
    assert (await store.tend(now=at(30))).total == 0
    assert (await store.tend(now=at(30 - HOUR))).total == 0
    assert await take(store, now=at(39 - HOUR)) == []
    assert ids(await take(store, now=at(40 - HOUR))) == [number]


async def test_it_may_be_set_back_again_and_again(store: Store) -> None:
    number = await retry_scheduled(store)
    await set_back(store)
    await set_back(store, HOUR * 5)
    assert (await store.tend(now=at(10 - HOUR * 5))).total == 0
    await set_back(store, HOUR * 6 - 10)
    assert await take(store, now=at(29 - HOUR * 6)) == []
    assert ids(await take(store, now=at(30 - HOUR * 6))) == [number]


async def test_a_clock_that_is_a_little_off_moves_nothing(store: Store) -> None:
    number = await retry_scheduled(store)
    assert await take(store, now=at(-4)) == []
    assert await take(store, now=at(29)) == []
    assert ids(await take(store, now=at(30))) == [number]


async def test_of_many_that_notice_at_once_one_moves_it(store: Store, open_another: OpenAnother) -> None:
    number = await retry_scheduled(store)
    others = [await open_another() for _ in range(4)]
    await asyncio.gather(*(other.tend(now=at(-HOUR)) for other in [store, *others] for _ in range(5)))
    event = await store.event(number)
    assert event is not None
    assert event.next_retry_at == at(30 - HOUR)


async def test_what_was_scheduled_since_is_left_alone(store: Store) -> None:
    number = await retry_scheduled(store)
    await set_back(store)
    later = await publish_one(store, now=at(-HOUR), delay=seconds(100))
    assert ids(await take(store, 2, now=at(99 - HOUR))) == [number]
    assert ids(await take(store, now=at(100 - HOUR))) == [later]


async def test_an_ordering_key_is_held_by_its_retry_until_that_has_run(store: Store) -> None:
    head = await retry_scheduled(store, key="k")
    behind, timed = await publish(store, new(key="k", delay=seconds(50)), new(key="k", deliver_at=at(60)))
    await set_back(store)
    assert await take(store, 3, now=at(29 - HOUR)) == []
    claim = await take_one(store, now=at(30 - HOUR))
    assert claim.event.id == head
    assert await take(store, 3, now=at(40 - HOUR)) == []
    assert await complete(store, claim, at(40 - HOUR))
    assert await take(store, 3, now=at(49 - HOUR)) == []
    claim = await take_one(store, now=at(50 - HOUR))
    assert claim.event.id == behind
    assert await complete(store, claim, at(50 - HOUR))
    assert await take(store, 3, now=at(59)) == []
    assert ids(await take(store, 3, now=at(60))) == [timed]


@pytest.mark.parametrize("handed_out", [True, False])
async def test_broadcasts_keep_their_delays_and_times(store: Store, *, handed_out: bool) -> None:
    name = await subscriber(store)
    route = Route(QUEUE)
    delayed, timed = await publish(
        store,
        NewEvent(type="a", payload="1", route=route, work=False, broadcast=True, delay=seconds(30)),
        NewEvent(type="a", payload="2", route=route, work=False, broadcast=True, deliver_at=at(30)),
    )
    to_all = await plan(store, name)
    if handed_out:
        assert (await store.fan_out(to_all, now=at(0))).messages == 2
    await store.tend(now=at(0))
    await store.tend(now=at(-HOUR))
    if not handed_out:
        assert (await store.fan_out(to_all, now=at(-HOUR))).messages == 2

    async def taken(now: datetime) -> list[int]:
        await store.tend(now=now)
        return [message.event_id for message in await claim(store, name, now=now)]

    assert await taken(at(29 - HOUR)) == []
    assert await taken(at(30 - HOUR)) == [delayed]
    assert timed in await taken(at(30))
