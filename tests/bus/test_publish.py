"""Publishing: stored first, then handled; what comes back and when."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eventhub.bus import EventBus, Tuning
from eventhub.core.events import Status
from eventhub.core.retry import RetryPolicy
from eventhub.core.strict_json import MAX_BYTES
from eventhub.errors import (
    EventHubError,
    IdempotencyConflict,
    InvalidEventError,
    InvalidPayloadError,
    PayloadTooLargeError,
)
from eventhub.store.values import EventFilter
from tests.bus.support import Gate, Recorder, until


async def test_publish_returns_the_id_of_a_completed_event(bus, status) -> None:
    handler = Recorder()
    bus.subscribe("user.created", handler)
    event_id = await bus.publish("user.created", {"id": 7}, metadata={"source": "signup"})
    assert isinstance(event_id, int)
    assert await status(event_id) == "COMPLETED"
    (event,) = handler.events
    assert (event.id, event.type, event.payload) == (event_id, "user.created", {"id": 7})
    assert event.metadata == {"source": "signup"}


async def test_handlers_get_what_they_need_to_be_idempotent(bus, store) -> None:
    handler = Recorder(failures=1)
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", None, tags=["red", "blue"])
    first, second = handler.events
    assert (first.id, second.id) == (event_id, event_id)
    assert (first.attempts, second.attempts) == (1, 2)
    assert (first.fence, second.fence) == (1, 2)
    assert first.status is Status.PROCESSING
    assert first.tags == ("red", "blue")
    assert second.created_at == first.created_at == (await store.event(event_id)).created_at


async def test_publish_waits_for_the_retries_too(bus, status) -> None:
    handler = Recorder(failures=2)
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", 1)
    assert len(handler.events) == 3
    assert await status(event_id) == "COMPLETED"


async def test_publish_returns_normally_when_the_event_failed_for_good(bus, status) -> None:
    bus.subscribe("*", Recorder(failures=99))
    assert await status(await bus.publish("a", 1)) == "FAILED"


async def test_without_waiting_it_returns_while_the_handler_still_runs(bus, status) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    event_id = await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    assert await status(event_id) == "PROCESSING"
    gate.open.set()
    await until(lambda: _is(status, event_id, "COMPLETED"))


async def _is(status: Any, event_id: int, word: str) -> bool:
    return bool(await status(event_id) == word)


async def test_an_event_that_nobody_wants_is_complete_at_once(bus, status) -> None:
    bus.subscribe("other", Recorder())
    assert await status(await bus.publish("nobody.wants.this", 1)) == "COMPLETED"


async def test_keep_leaves_an_unwanted_event_pending_until_somebody_comes(make_bus, status) -> None:
    bus = await make_bus(on_unmatched="keep").start()
    event_id = await bus.publish("a.b", 1)
    assert await status(event_id) == "PENDING"
    handler = Recorder()
    bus.subscribe("a.*", handler)
    await until(lambda: _is(status, event_id, "COMPLETED"))
    assert handler.payloads == [1]


BAD_PAYLOADS: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "a key that is no string": {1: "key"},
    "an object": {"a": object()},
    "a set": {"a": {1, 2}},
    "a NUL": "a\x00b",
    "a lone surrogate": "\ud800",
    "bytes": b"bytes",
    "65 levels": eval("[" * 65 + "]" * 65),
}


@pytest.mark.parametrize("payload", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
async def test_an_invalid_payload_is_refused_and_nothing_is_stored(bus, store, payload) -> None:
    handler = Recorder()
    bus.subscribe("*", handler)
    with pytest.raises(InvalidPayloadError):
        await bus.publish("a", payload)
    assert await store.events(EventFilter()) == []
    assert handler.events == []


async def test_a_payload_that_contains_itself_is_refused(bus) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidPayloadError, match="contains itself"):
        await bus.publish("a", circle)


async def test_one_mebibyte_exactly_is_accepted_and_one_byte_more_is_not(bus, store) -> None:
    assert await bus.publish("a", "x" * (MAX_BYTES - 2))
    with pytest.raises(PayloadTooLargeError):
        await bus.publish("a", "x" * (MAX_BYTES - 1))
    assert len(await store.events(EventFilter())) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": ""},
        {"type": "white space"},
        {"type": None},
        {"metadata": {"a": 1}},
        {"metadata": ["a"]},
        {"ordering_key": ""},
        {"ordering_key": "a\x00"},
        {"idempotency_key": "k" * 256},
        {"idempotency_key": 7},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": "soon"},
        {"tags": ["white space"]},
    ],
    ids=repr,
)
async def test_anything_else_that_is_wrong_is_refused_before_it_is_stored(bus, store, wrong) -> None:
    with pytest.raises(InvalidEventError):
        await bus.publish(**{"type": "a", "payload": 1, **wrong})
    assert await store.events(EventFilter()) == []


async def test_a_payload_is_the_handlers_own_copy(bus) -> None:
    handler, payload = Recorder(), {"list": [1]}
    bus.subscribe("*", handler)
    await bus.publish("a", payload)
    handler.events[0].payload["list"].append(2)
    assert payload == {"list": [1]}


async def test_a_thousand_concurrent_publishes_are_all_handled_once(bus, store) -> None:
    handler = Recorder()
    bus.subscribe("load.*", handler)
    ids = await asyncio.gather(*(bus.publish("load.test", number) for number in range(1000)))
    assert len(set(ids)) == 1000
    assert sorted(handler.payloads) == list(range(1000))
    (stats,) = await store.stats("bus")
    assert stats.depth[Status.COMPLETED] == 1000


async def test_more_events_than_slots_all_get_their_turn(make_bus) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=2, poll_interval=30)).start()
    handler, running, most = Recorder(), 0, 0

    async def count(event: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    bus.subscribe("*", count)
    bus.subscribe("*", handler)
    await asyncio.gather(*(bus.publish("a", number) for number in range(60)))
    assert sorted(handler.payloads) == list(range(60))
    assert most <= 2


async def test_many_events_in_one_call_are_stored_together_and_handled(bus, status) -> None:
    handler = Recorder()
    bus.subscribe("a", handler)
    ids = await bus.publish_many(
        [("a", 1), ("a", 2, {"k": "v"}), {"type": "a", "payload": 3, "tags": "x"}, ("unwanted", 4)]
    )
    await until(lambda: len(handler.events) == 3)
    assert sorted(handler.payloads) == [1, 2, 3]
    assert ids == sorted(ids)
    assert await status(ids[3]) == "COMPLETED"


@pytest.mark.parametrize(
    "wrong", [("a",), {"type": "a"}, ("a", float("nan")), "a", {"type": "a", "payload": 1, "tags": 5}]
)
async def test_one_bad_event_among_many_stores_none(bus, store, wrong) -> None:
    with pytest.raises((InvalidEventError, TypeError)):
        await bus.publish_many([("a", 1), wrong])
    assert await store.events(EventFilter()) == []


async def test_the_same_idempotency_key_is_one_event(bus) -> None:
    handler = Recorder()
    bus.subscribe("*", handler)
    first = await bus.publish("a", 1, idempotency_key="k")
    again = await bus.publish("a", 1, idempotency_key="k")
    assert first == again
    assert handler.payloads == [1]
    assert bus.counters["a"].total == 1


async def test_a_duplicate_waits_for_the_first_one_to_settle(bus, status) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    first = await bus.publish("a", 1, idempotency_key="k", wait=False)
    again = asyncio.create_task(bus.publish("a", 1, idempotency_key="k"))
    await until(lambda: gate.inside)
    assert not again.done()
    gate.open.set()
    assert await again == first
    assert await status(first) == "COMPLETED"


async def test_a_key_that_stands_for_another_event_is_refused(bus) -> None:
    bus.subscribe("*", Recorder())
    await bus.publish("a", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await bus.publish("a", 2, idempotency_key="k")
    assert bus._parts.flights.free == Tuning().concurrency, "a refused event holds no slot"


async def test_events_of_one_ordering_key_are_handled_in_order_also_when_one_is_retried(bus) -> None:
    seen: list[int] = []

    async def handler(event: Any) -> None:
        if event.payload == 0 and event.attempts < 3:
            raise RuntimeError("not yet")
        seen.append(event.payload)

    bus.subscribe("*", handler)
    await asyncio.gather(*(bus.publish("a", number, ordering_key="k") for number in range(5)))
    assert seen == sorted(seen) == [0, 1, 2, 3, 4]


async def test_a_delayed_event_is_handled_when_it_is_due(bus, store) -> None:
    handler = Recorder()
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", 1, delay=timedelta(milliseconds=50))
    (event,) = handler.events
    assert event.id == event_id
    picked = next(entry for entry in await store.log(event_id) if entry.action == "PICKED")
    assert picked.created_at - event.created_at >= timedelta(milliseconds=50)


async def test_a_bus_that_was_not_started_starts_with_its_first_event(make_bus) -> None:
    bus: EventBus = make_bus()
    handler = Recorder()
    bus.subscribe("*", handler)
    await asyncio.gather(bus.publish("a", 1), bus.publish("a", 2), bus.publish_many([("a", 3)]))
    await until(lambda: len(handler.events) == 3)


async def test_a_cancelled_publisher_does_not_stop_its_event(bus, status) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    publisher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publisher
    assert gate.cancelled == 0
    gate.open.set()
    await until(lambda: bus.counters["a"].total == 1 and not bus._parts.flights.tasks)
    assert await status(1) == "COMPLETED"
    assert len(bus._parts.waiting) == 0


async def test_a_publisher_cancelled_while_its_event_is_stored_leaves_no_claim_behind(bus, store) -> None:
    handler = Recorder()
    bus.subscribe("*", handler)
    publishers = [asyncio.create_task(bus.publish("a", number)) for number in range(20)]
    await asyncio.sleep(0)
    for publisher in publishers:
        publisher.cancel()
    await asyncio.gather(*publishers, return_exceptions=True)
    await until(lambda: not bus._parts.flights.tasks)
    assert await store.events(EventFilter(status=Status.PROCESSING)) == []
    assert await store.events(EventFilter(status=Status.PENDING)) == []


async def test_a_handler_may_publish(bus) -> None:
    handler = Recorder()
    bus.subscribe("second", handler)

    @bus.on("first")
    async def chain(event: Any) -> None:
        await bus.publish("second", event.payload + 1)

    await bus.publish("first", 1)
    assert handler.payloads == [2]


async def test_a_publisher_whose_subscription_goes_away_is_told_and_the_event_stays(make_bus, status) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=30)).start()
    handler = Recorder(failures=99)
    subscription = bus.subscribe("*", handler)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: bus.counters["a"].retries)
    assert await bus.unsubscribe(subscription)
    with pytest.raises(EventHubError, match="stays PENDING"):
        await publisher
    assert await status(handler.events[0].id) == "PENDING"


async def test_a_subscription_that_goes_away_in_the_very_step_of_the_retry_tells_the_publisher(make_bus) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=30)).start()
    for turn in range(20):  # whether the flight or this loop comes first in a step of the event loop is open
        subscription = bus.subscribe("*", Recorder(failures=99))
        publisher = asyncio.create_task(bus.publish("a", turn))
        while bus.counters["a"].retries <= turn:  # noqa: ASYNC110 - looks in every step of the event loop
            await asyncio.sleep(0)
        assert await bus.unsubscribe(subscription)
        done, _ = await asyncio.wait({publisher}, timeout=10)
        assert done, f"the publisher of turn {turn} was never told"
        assert isinstance(publisher.exception(), EventHubError)
