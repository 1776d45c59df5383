"""Idempotency keys: the same event again is the first one, another event is refused, and racing ones are one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from eventhub.errors import IdempotencyConflict
from eventhub.store import Store
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    START,
    at,
    complete,
    kill,
    new,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)


async def depth(store: Store) -> int:
    return sum(sum(stats.depth.values()) for stats in await store.stats())


async def test_the_same_key_and_event_again_is_the_first_event(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k")
    (again,) = await store.publish([new(idempotency_key="k")], now=at(5))
    assert (again.id, again.created_at, again.duplicate, again.leased) == (number, START, True, False)
    assert await depth(store) == 1


async def test_the_trace_of_a_second_try_does_not_make_it_another_event(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k", metadata='{"a":"b","traceparent":"00-1","tracestate":"x"}')
    same = [new(idempotency_key="k", metadata=m) for m in ('{"a":"b"}', '{"a":"b","traceparent":"00-2"}')]
    assert [again.id for again in await store.publish(same, now=START)] == [number, number]
    with pytest.raises(IdempotencyConflict):
        await store.publish([new(idempotency_key="k", metadata='{"a":"c","traceparent":"00-1"}')], now=START)


@pytest.mark.parametrize(
    "other", [{"priority": 1}, {"delay": seconds(10)}, {"delay": seconds(61)}, {"deliver_at": at(60)}, {}]
)
async def test_another_priority_or_another_time_is_another_event(store: Store, other: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"idempotency_key": "k", "delay": seconds(60)}
    number = await publish_one(store, **asked)
    assert await publish_one(store, at(30), **asked) == number, "a delay counts as it was given"
    changed = {**asked, **other} if "priority" in other else {"idempotency_key": "k", **other}
    for batch in ([new(**changed)], [new(**asked), new(**changed)]):
        with pytest.raises(IdempotencyConflict):
            await store.publish(batch, now=at(30))
    with pytest.raises(IdempotencyConflict):
        await store.publish([new(**{**each, "idempotency_key": "l"}) for each in (asked, changed)], now=START)
    assert await depth(store) == 1


async def test_a_duplicate_amid_plain_events_leaves_every_other_with_its_own_id_and_payload(store: Store) -> None:
    await publish_one(store, idempotency_key="k")
    route = new().route  # one object for all, as a composer gives them
    batch = [new(payload=n, idempotency_key="k" if n == 2 else None) for n in range(5)]
    batch[2].payload = new().payload
    for event in batch:
        event.route = route
    numbers = await publish(store, *batch)
    taken = {claim.event.id: claim.event.payload for claim in await take(store, 10)}
    assert taken == {numbers[n]: {"n": 1} if n == 2 else n for n in range(5)}


async def test_a_duplicate_asked_to_be_leased_is_not_leased(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k")
    (again,) = await store.publish([new(idempotency_key="k", worker="me", lease=seconds(60))], now=START)
    assert (again.id, again.duplicate, again.leased) == (number, True, False)


async def test_a_key_still_stands_for_its_event_when_that_is_settled(store: Store) -> None:
    number = await publish_one(store, idempotency_key="k")
    await complete(store, await take_one(store))
    (again,) = await store.publish([new(idempotency_key="k")], now=at(5))
    assert (again.id, again.duplicate) == (number, True)
    assert await take(store) == []


@pytest.mark.parametrize(
    "other",
    [
        {"payload": "other"},
        {"type_": "order.other"},
        {"metadata": '{"a":"b"}'},
        {"tags": ("x",)},
        {"title": "t"},
        {"description": "d"},
        {"key": "o"},
    ],
)
async def test_the_same_key_for_another_event_is_refused(store: Store, other: dict[str, Any]) -> None:
    number = await publish_one(store, idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match=rf"'k' belongs to event {number} already.*Use a new key"):
        await store.publish([new(idempotency_key="k", **other)], now=START)
    assert await depth(store) == 1


async def test_a_refused_call_leaves_nothing_and_gives_back_its_keys(store: Store) -> None:
    await publish_one(store, idempotency_key="taken")
    call = [
        new(payload="a"),
        new(payload="b", idempotency_key="free"),
        new(payload="c", idempotency_key="taken"),
        new(payload="d", key="lane"),
    ]
    with pytest.raises(IdempotencyConflict):
        await store.publish(call, now=START)
    assert await depth(store) == 1
    (published,) = await store.publish([new(payload="anything", idempotency_key="free")], now=START)
    assert not published.duplicate


async def test_one_key_twice_in_a_call_is_one_event(store: Store) -> None:
    first, second, third = await store.publish(
        [new(idempotency_key="k"), new(idempotency_key="k"), new(payload="other")], now=START
    )
    assert (second.id, second.duplicate, second.created_at) == (first.id, True, first.created_at)
    assert not first.duplicate
    assert third.id != first.id
    assert await depth(store) == 2


async def test_one_key_for_two_events_of_a_call_is_refused(store: Store) -> None:
    with pytest.raises(IdempotencyConflict):
        await store.publish([new(idempotency_key="k"), new(payload="x", idempotency_key="k")], now=START)
    assert await depth(store) == 0


async def test_queues_do_not_share_their_keys(store: Store) -> None:
    one, two = await publish(store, new(idempotency_key="k"), new(payload="other", queue="second", idempotency_key="k"))
    assert one != two
    (again,) = await store.publish([new(payload="other", queue="second", idempotency_key="k")])
    assert (again.id, again.duplicate) == (two, True)


async def test_a_purged_events_key_is_free_again(store: Store) -> None:
    first = await kill(store, idempotency_key="k")
    assert await store.purge_dead(older_than=seconds(0), now=at(1)) == 1
    (published,) = await store.publish([new(payload="other", idempotency_key="k")], now=at(2))
    assert not published.duplicate
    assert published.id != first


async def test_racing_duplicates_from_many_tasks_make_one_event(store: Store) -> None:
    calls = [store.publish([new(idempotency_key="k")]) for _ in range(60)]
    answers = [answer for (answer,) in await asyncio.gather(*calls)]
    assert len({answer.id for answer in answers}) == 1
    assert sum(not answer.duplicate for answer in answers) == 1
    assert await depth(store) == 1


async def test_racing_duplicates_of_one_commit_make_one_event(store: Store) -> None:
    # The first call occupies the writer, so those behind it are stored together.
    calls = [[new(payload="first")], *([new(payload=n % 3, idempotency_key=f"k{n % 3}")] for n in range(30))]
    answers = [answer for (answer,) in await asyncio.gather(*(store.publish(call) for call in calls))]
    assert len({answer.id for answer in answers}) == 4
    assert sum(not answer.duplicate for answer in answers) == 4
    assert await depth(store) == 4


async def test_racing_different_events_of_one_key_make_one_event_and_refuse_the_rest(store: Store) -> None:
    calls = [store.publish([new(payload=n, idempotency_key="k")]) for n in range(40)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    stored = [answer for answer in answers if isinstance(answer, Sequence)]
    assert len(stored) == 1
    assert all(isinstance(answer, IdempotencyConflict) for answer in answers if answer not in stored)
    assert await depth(store) == 1


async def test_a_call_is_not_refused_for_a_key_that_a_refused_call_gave_back(store: Store) -> None:
    await publish_one(store, idempotency_key="taken")
    calls = [
        [new(payload="first")],
        [new(payload="a", idempotency_key="k"), new(payload="bad", idempotency_key="taken")],
        [new(payload="a", idempotency_key="k")],
        [new(payload="b", idempotency_key="k")],
    ]
    answers = await asyncio.gather(*(store.publish(call) for call in calls), return_exceptions=True)
    assert isinstance(answers[1], IdempotencyConflict)
    kept = [answer for answer in answers[2:] if isinstance(answer, Sequence)]
    assert len(kept) == 1, "exactly one of the two events may have the key"
    assert not kept[0][0].duplicate


async def test_racing_duplicates_from_several_stores_make_one_event(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    calls = [each.publish([new(idempotency_key=f"k{n}")]) for n in range(20) for each in stores]
    answers = [answer for (answer,) in await asyncio.gather(*calls)]
    assert len({answer.id for answer in answers}) == 20
    assert sum(not answer.duplicate for answer in answers) == 20


async def test_racing_calls_with_the_same_keys_in_opposite_order_both_succeed(
    store: Store, open_another: OpenAnother
) -> None:
    other = await open_another()
    for turn in range(10):
        call = [new(payload=n, idempotency_key=f"{turn}-{n}") for n in range(10)]
        one, two = await asyncio.gather(store.publish(call), other.publish(call[::-1]))
        assert [answer.id for answer in one] == [answer.id for answer in two[::-1]]
        assert sum(not answer.duplicate for answer in [*one, *two]) == 10
