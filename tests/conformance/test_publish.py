"""Publishing: what is stored, in what order, in what state, and that a call is all or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import apsw
import msgspec
import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import State
from eventhub.errors import StoreError
from eventhub.store import Store
from eventhub.store.columns import PlainEvents, ids_of
from eventhub.store.composing import Composer
from eventhub.store.values import NewEvent, Published, Route
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    QUEUE,
    START,
    actions,
    at,
    ids,
    new,
    publish,
    publish_one,
    take,
    take_one,
)


async def test_an_event_comes_back_as_it_was_published(store: Store) -> None:
    number = await publish_one(
        store,
        type_="invoice.paid",
        payload={"total": 12.5, "lines": [1, "zwei", None, True], "ö": "€ 😀"},
        tags=("eu", "paid"),
        metadata='{"source":"shop","trace":"1"}',
        title="Invoice paid",
        description="Third reminder",
        key="customer-7",
        idempotency_key="invoice-12",
    )
    event = await store.event(number)
    assert event is not None
    assert event.id == number
    assert event.type == "invoice.paid"
    assert event.payload == {"total": 12.5, "lines": [1, "zwei", None, True], "ö": "€ 😀"}
    assert event.metadata == {"source": "shop", "trace": "1"}
    assert event.tags == ("eu", "paid")
    assert (event.title, event.description) == ("Invoice paid", "Third reminder")
    assert (event.ordering_key, event.idempotency_key) == ("customer-7", "invoice-12")
    assert event.queue == QUEUE
    assert event.created_at == event.updated_at == START
    assert event.status is Status.PENDING
    assert (event.attempts, event.retry_count, event.fence) == (0, 0, 0)
    assert (event.lease_expires_at, event.next_retry_at, event.errors) == (None, None, ())


@pytest.mark.parametrize("payload", ["text", '{"not": "parsed"}', "", 0, -1.5, True, [], {}, [[]], "null"])
async def test_any_json_value_is_a_payload_and_keeps_its_type(store: Store, payload: object) -> None:
    number = await publish_one(store, payload=payload)
    event = await store.event(number)
    claim = await take_one(store)
    assert event is not None
    assert event.payload == claim.event.payload == payload
    assert type(event.payload) is type(claim.event.payload) is type(payload)


async def test_null_is_a_payload(store: Store) -> None:
    (number,) = await publish(store, NewEvent(type="tick", payload="null", route=Route(QUEUE)))
    event = await store.event(number)
    assert event is not None
    assert event.payload is None


async def test_the_text_of_a_payload_is_kept_byte_for_byte(store: Store) -> None:
    text = '{"b":1,"a":[1.10,2e0],"b2":"\\u00e9"}'
    await publish(store, NewEvent(type="tick", payload=text, route=Route(QUEUE), idempotency_key="k"))
    again = NewEvent(type="tick", payload=text, route=Route(QUEUE), idempotency_key="k")
    (published,) = await store.publish([again])
    assert published.duplicate


async def test_a_large_payload_comes_back_whole(store: Store) -> None:
    payload = "ü" * 500_000
    number = await publish_one(store, payload=payload)
    assert (await take_one(store)).event.payload == payload
    event = await store.event(number)
    assert event is not None
    assert event.payload == payload


async def test_ids_grow_in_the_order_of_the_call_and_from_call_to_call(store: Store) -> None:
    first = await publish(store, *(new(payload=n) for n in range(50)))
    second = await publish(store, *(new(payload=n) for n in range(50)))
    assert first + second == sorted(set(first + second))
    claims = await take(store, 100)
    assert ids(claims) == first + second
    assert [claim.event.payload for claim in claims] == [*range(50), *range(50)]


async def test_an_empty_call_stores_nothing(store: Store) -> None:
    assert await store.publish([]) == []
    assert await take(store) == []


async def test_the_answer_tells_the_id_and_the_time(store: Store) -> None:
    (published,) = await store.publish([new()], now=at(3))
    assert published.created_at == at(3)
    assert (published.duplicate, published.leased) == (False, False)


async def test_without_a_given_time_the_databases_clock_is_taken(store: Store) -> None:
    (published,) = await store.publish([new()])
    (later,) = await store.publish([new()])
    assert published.created_at.utcoffset() == timedelta(0)
    assert published.created_at <= later.created_at
    event = await store.event(published.id)
    assert event is not None
    assert event.created_at == published.created_at


@pytest.mark.parametrize(
    "when", [{"delay": timedelta(seconds=30)}, {"deliver_at": at(30)}], ids=["delay", "deliver_at"]
)
async def test_a_later_event_waits_until_its_time_and_not_a_moment_longer(store: Store, when: dict[str, Any]) -> None:
    number = await publish_one(store, **when)
    event = await store.event(number)
    assert event is not None
    assert event.status is Status.PENDING
    assert event.next_retry_at == at(30)
    assert await take(store, now=at(30) - MICROSECOND) == []
    assert ids(await take(store, now=at(30))) == [number]


@pytest.mark.parametrize(
    "when",
    [{"delay": timedelta(0)}, {"delay": timedelta(seconds=-5)}, {"deliver_at": at(-5)}, {"deliver_at": START}],
)
async def test_a_time_that_has_come_is_no_delay(store: Store, when: dict[str, Any]) -> None:
    number = await publish_one(store, **when)
    current = (await store.current([number]))[number]
    assert (current.state, current.due) == (State.READY, None)


async def test_an_event_may_be_leased_to_its_publisher_at_once(store: Store) -> None:
    (published,) = await store.publish([new(worker="me", lease=MINUTE)], now=START)
    assert published.leased
    current = (await store.current([published.id]))[published.id]
    assert (current.state, current.worker, current.due) == (State.LEASED, "me", at(60))
    assert (current.fence, current.attempts) == (1, 1)
    assert await actions(store, published.id) == ["PUBLISHED", "PICKED"]
    assert await take(store) == []


@pytest.mark.parametrize("obstacle", [{"delay": MINUTE}, {"key": "k"}], ids=["delay", "ordering key"])
async def test_an_event_that_must_wait_its_turn_is_not_leased_to_its_publisher(
    store: Store, obstacle: dict[str, Any]
) -> None:
    (published,) = await store.publish([new(worker="me", lease=MINUTE, **obstacle)], now=START)
    current = (await store.current([published.id]))[published.id]
    assert not published.leased
    assert current.state is not State.LEASED
    assert (current.worker, current.fence, current.attempts) == (None, 0, 0)


async def test_an_event_that_nobody_wants_is_completed_at_once(store: Store) -> None:
    number = await publish_one(store, completed=True)
    event = await store.event(number)
    assert event is not None
    assert event.status is Status.COMPLETED
    assert await store.current([number]) == {}
    assert await actions(store, number) == ["PUBLISHED", "COMPLETED"]


async def test_a_batch_may_mix_every_kind(store: Store) -> None:
    numbers = await publish(
        store,
        new(payload="plain"),
        new(payload="later", delay=MINUTE),
        new(payload="mine", worker="me", lease=MINUTE),
        new(payload="nobody", completed=True),
        new(payload="head", key="k"),
        new(payload="behind", key="k"),
        new(payload="elsewhere", queue="other"),
        new(payload="keyed", idempotency_key="once"),
    )
    current = await store.current(numbers)
    states = [current[number].state if number in current else None for number in numbers]
    assert states == [
        State.READY,
        State.WAITING,
        State.LEASED,
        None,
        State.READY,
        State.BEHIND,
        State.READY,
        State.READY,
    ]
    assert [claim.event.payload for claim in await take(store, 10)] == ["plain", "head", "keyed"]


async def test_one_event_that_cannot_be_stored_leaves_nothing_of_its_call(store: Store) -> None:
    bad = new()
    bad.type = None  # type: ignore[assignment]
    with pytest.raises((StoreError, apsw.ConstraintError)):
        await store.publish([new(payload="good"), bad], now=START)
    assert await take(store, 10) == []
    stats = await store.stats(QUEUE)
    assert sum(stats[0].depth.values()) == 0


async def test_every_published_event_is_logged_once(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(20)))
    for number in numbers:
        (entry,) = await store.log(number)
        assert (entry.action, entry.event_id, entry.created_at) == ("PUBLISHED", number, START)


TRICKY = [
    "a\nb",
    "a\r\n",
    "\u2028\u2029\x85",
    'quo"te',
    "\\n",
    "",
    " ",
    "null",
    "😀",
    {"\n": ["\n", None]},
    [],
    0,
]


async def test_events_kept_as_columns_are_stored_like_any_others(
    store: Store, open_another: Callable[[], Awaitable[Store]]
) -> None:
    """Two stores, one batch: once as columns, once event by event."""
    composer = Composer(QUEUE, max_attempts=4)
    given = [{"type": "a.b", "payload": payload} for payload in TRICKY * 3]
    plain = composer.many(given)
    columns = composer.together(given)
    assert isinstance(columns, PlainEvents)
    assert list(columns) == plain
    assert list(columns[2:5]) == plain[2:5]
    one = await store.publish(columns, now=START)
    other = await store.publish(plain, now=START)
    assert [*one] == [Published(one[0].id + place, START, told=one[0].told) for place in range(len(given))]
    assert ids_of(one) == [published.id for published in one] == [published.id for published in one[:]]
    assert ids_of(other) == [published.id + len(given) for published in one]
    for number, again, event in zip(ids_of(one), ids_of(other), given, strict=True):
        first, second = await store.event(number), await store.event(again)
        assert first is not None
        assert second is not None
        assert first.payload == second.payload == event["payload"]
        assert msgspec.structs.replace(first, id=again) == second
        assert await actions(store, number) == await actions(store, again) == ["PUBLISHED"]
    claims = await take(await open_another(), limit=len(given) * 2)
    assert [claim.event.id for claim in claims] == ids_of(one) + ids_of(other)
    assert {claim.max_attempts for claim in claims} == {4}


async def test_columns_and_single_events_that_wait_together_get_their_own_answers(store: Store) -> None:
    composer = Composer(QUEUE)
    composer.many([{"type": "a", "payload": 0}])
    calls = [
        composer.together([{"type": "a", "payload": [call, place]} for place in range(call)]) if call % 2 else [new()]
        for call in range(1, 40)
    ]
    answers = await asyncio.gather(*(store.publish(call) for call in calls))
    assert [len(answer) for answer in answers] == [len(call) for call in calls]
    numbers = [number for answer in answers for number in ids_of(answer)]
    assert len(set(numbers)) == sum(map(len, calls))
    for call, answer in zip(calls, answers, strict=True):
        stored = [await store.event(number) for number in ids_of(answer)]
        assert [event and msgspec.json.encode(event.payload).decode() for event in stored] == [e.payload for e in call]


async def test_limits_that_differ_stay_with_their_events(store: Store) -> None:
    """Where one array element stands for all rows, an event without a limit must not get its neighbour's."""
    limits = [3, None, None, 5]
    await store.publish([new(max_attempts=limit) for limit in limits], now=START)
    assert [claim.max_attempts for claim in await take(store, limit=4)] == limits
