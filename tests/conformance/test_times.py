"""Events by the time they were stored: both ends are included, whatever else is asked for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.store import Store, reading
from eventhub.store.values import EventFilter
from tests.conformance.support import MICROSECOND, at, complete, kill, new, publish, publish_one, take_one


async def found(store: Store, **wanted: Any) -> list[int]:
    return [event.id for event in await store.events(EventFilter(**wanted))]


@pytest.fixture
async def numbers(store: Store) -> list[int]:
    """Ten events, one every ten seconds."""
    return [await publish_one(store, type_=f"t{second // 10 % 2}", now=at(second)) for second in range(0, 100, 10)]


async def test_both_ends_are_included(store: Store, numbers: list[int]) -> None:
    assert await found(store, since=at(30), until=at(50)) == numbers[5:2:-1]
    assert await found(store, since=at(30) + MICROSECOND, until=at(50) - MICROSECOND) == [numbers[4]]
    assert await found(store, since=at(70)) == numbers[:6:-1]
    assert await found(store, until=at(20)) == numbers[2::-1]
    assert await found(store, since=at(1000)) == await found(store, until=at(-1)) == []


async def test_an_empty_store_and_the_ends_of_time(store: Store) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert await found(store, since=first, until=last) == []
    number = await publish_one(store)
    assert await found(store, since=first, until=last) == [number]
    assert await found(store, since=last) == await found(store, until=first) == []


async def test_times_go_with_types_statuses_and_pages(store: Store, numbers: list[int]) -> None:
    assert await found(store, type="t1", since=at(20), until=at(60)) == [numbers[5], numbers[3]]
    assert await found(store, since=at(20), until=at(60), limit=2) == [numbers[6], numbers[5]]
    assert await found(store, since=at(20), until=at(60), limit=2, before_id=numbers[5]) == [numbers[4], numbers[3]]
    assert await found(store, since=at(20), until=at(60), limit=2, offset=3) == [numbers[3], numbers[2]]
    await complete(store, await take_one(store, now=at(200)), now=at(200))
    dead = await kill(store, now=at(300))
    assert await found(store, status=Status.COMPLETED, until=at(20)) == [numbers[0]]
    assert await found(store, status=Status.PENDING, until=at(10)) == [numbers[1]]
    assert await found(store, status=Status.FAILED, since=at(100)) == [dead]
    assert await found(store, status=Status.FAILED, until=at(100)) == []


async def test_events_that_were_stored_side_by_side_may_have_their_ids_in_another_order(store: Store) -> None:
    late = await publish_one(store, now=at(10.5))
    early = await publish_one(store, now=at(10))
    after = await publish_one(store, now=at(20))
    assert await found(store, since=at(10), until=at(10.2)) == [early]
    assert await found(store, since=at(10.4)) == [after, late]


async def test_a_range_may_be_larger_than_a_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SMALLEST_PAGE", 2)
    numbers = [number for second in range(6) for number in await publish(store, new(), now=at(second / 10))]
    assert await found(store, since=at(0.1), until=at(0.2), limit=2) == [numbers[2], numbers[1]]
    assert await found(store, until=at(0.3), limit=3) == [numbers[3], numbers[2], numbers[1]]


async def test_a_time_is_found_among_ids_with_gaps(store: Store) -> None:
    numbers = []
    for second in range(20):
        for _ in range(second % 4):
            await store.next_id()
        numbers.append(await publish_one(store, now=at(second)))
    for second, number in enumerate(numbers):
        first = await store.first_event_since(at(second))
        assert (numbers[second - 1] if second else 0) < first <= number
    assert await store.first_event_since(at(19) + timedelta(seconds=1)) == numbers[-1] + 1
