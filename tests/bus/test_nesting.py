"""Publishing from inside a handler: what it waits for runs in its place, so that nothing waits for a free slot."""

import asyncio
import threading
from typing import Any

import pytest

from eventhub import blocking
from eventhub.bus import Tuning
from eventhub.bus.nesting import MAX_DEPTH
from eventhub.core.events import Status
from eventhub.core.retry import RetryPolicy
from eventhub.errors import NestedPublishError
from tests.bus.support import NEVER_AGAIN, Gate, Recorder, until

ONE_SLOT = Tuning(concurrency=1, threads=1, poll_interval=0.01)
HANDLERS = 300


async def test_handlers_that_all_wait_for_what_they_publish_need_no_second_slot(make_bus) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, tuning=Tuning(concurrency=10, poll_interval=0.01)).start()
    inner, waiting = Recorder(), 0
    all_in = asyncio.Event()

    async def outer(event: Any) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 10:
            all_in.set()
        await all_in.wait()  # every slot is taken by a handler that is about to wait
        await bus.publish("inner", event.payload)

    bus.subscribe("outer", outer)
    bus.subscribe("inner", inner)
    await asyncio.gather(*(bus.publish("outer", number) for number in range(HANDLERS)))
    assert sorted(inner.payloads) == list(range(HANDLERS))
    assert bus.counters["outer"].dlq == bus.counters["inner"].dlq == 0


async def test_plain_handlers_that_wait_lend_their_threads(make_bus) -> None:
    loop = asyncio.get_running_loop()
    bus = await make_bus(retry=NEVER_AGAIN, tuning=Tuning(threads=8, poll_interval=0.01)).start()
    all_in, inner = threading.Barrier(8), []

    def outer(event: Any) -> None:
        all_in.wait(60)  # every thread is taken by a handler that is about to wait
        asyncio.run_coroutine_threadsafe(bus.publish("inner", event.payload), loop).result(60)

    def plain(event: Any) -> None:
        inner.append(event.payload)

    bus.subscribe("outer", outer)
    bus.subscribe("inner", plain)
    await asyncio.gather(*(bus.publish("outer", number) for number in range(64)))
    assert sorted(inner) == list(range(64))
    assert bus.counters["outer"].dlq == 0


def test_blocking_handlers_publish_and_wait_by_the_hundred(store_url) -> None:
    seen: list[int] = []
    with blocking.EventBus(store_url, retry=NEVER_AGAIN, tuning=Tuning(concurrency=4, threads=4)) as bus:

        def outer(event: Any) -> None:
            bus.publish("inner", event.payload)

        def inner(event: Any) -> None:
            seen.append(event.payload)

        bus.subscribe("outer", outer)
        bus.subscribe("inner", inner)
        publishers = [threading.Thread(target=bus.publish, args=("outer", number)) for number in range(100)]
        for publisher in publishers:
            publisher.start()
        for publisher in publishers:
            publisher.join(60)
        assert bus.counters["outer"].dlq == 0
    assert sorted(seen) == list(range(100))


async def count_down(bus: Any, event: Any, errors: list[Exception]) -> None:
    try:
        if event.payload:
            await bus.publish("down", event.payload - 1)
    except NestedPublishError as error:
        errors.append(error)


@pytest.mark.parametrize(("depth", "refused"), [(MAX_DEPTH, 0), (MAX_DEPTH + 1, 1)])
async def test_thirty_two_may_wait_for_one_another_in_one_slot_and_no_more(make_bus, depth, refused) -> None:
    bus = await make_bus(tuning=ONE_SLOT).start()
    errors: list[Exception] = []
    bus.subscribe("down", lambda event: count_down(bus, event, errors))
    await bus.publish("down", depth)
    assert bus.counters["down"].total == MAX_DEPTH + 1
    assert len(errors) == refused
    assert all("33 events deep; at most 32 may wait" in str(error) for error in errors)


async def test_a_nested_event_that_is_tried_again_still_needs_no_slot(make_bus, status) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=0.01, jitter=0), tuning=ONE_SLOT).start()
    inner = Recorder(failures=2)
    ids: list[int] = []

    async def outer(event: Any) -> None:
        ids.append(await bus.publish("inner", 1))

    bus.subscribe("outer", outer)
    bus.subscribe("inner", inner)
    await bus.publish("outer", 1)
    assert len(inner.events) == 3
    assert await status(ids[0]) == "COMPLETED"


async def test_a_nested_event_behind_another_of_its_key_lets_that_one_pass(make_bus) -> None:
    bus = await make_bus(tuning=ONE_SLOT).start()
    order = Recorder()

    async def outer(event: Any) -> None:
        await bus.publish("inner", "first", wait=False, ordering_key="k")
        await bus.publish("inner", "second", ordering_key="k")

    bus.subscribe("outer", outer)
    bus.subscribe("inner", order)
    await asyncio.wait_for(bus.publish("outer", 1), 60)
    assert order.payloads == ["first", "second"]


async def test_a_nested_event_that_is_delayed_is_waited_for(make_bus) -> None:
    bus = await make_bus(tuning=ONE_SLOT).start()
    inner = Recorder()

    async def outer(event: Any) -> None:
        await bus.publish("inner", 1, delay=0.02)

    bus.subscribe("outer", outer)
    bus.subscribe("inner", inner)
    await asyncio.wait_for(bus.publish("outer", 1), 60)
    assert inner.payloads == [1]


async def test_waiting_for_the_key_of_the_own_event_is_refused(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()

    async def outer(event: Any) -> None:
        await bus.publish("inner", 1, ordering_key="k")

    bus.subscribe("outer", outer)
    bus.subscribe("inner", Recorder())
    event_id = await bus.publish("outer", 1, ordering_key="k")
    (error,) = (await dlq.get(event_id)).errors
    assert error.startswith("NestedPublishError: A handler of an event with the ordering key 'k'")


async def test_waiting_for_the_own_event_under_its_idempotency_key_is_refused(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()

    async def outer(event: Any) -> None:
        await bus.publish("outer", 1, idempotency_key="k")

    bus.subscribe("outer", outer)
    event_id = await bus.publish("outer", 1, idempotency_key="k")
    (error,) = (await dlq.get(event_id)).errors
    assert error.startswith(f"NestedPublishError: A handler of event {event_id} publishes under the idempotency key")


async def test_two_buses_whose_handlers_wait_for_each_other_need_one_slot_each(make_bus) -> None:
    first, second = make_bus(name="first", tuning=ONE_SLOT), make_bus(name="second", tuning=ONE_SLOT)
    end = Recorder()

    async def there(event: Any) -> None:
        await second.publish("there", event.payload)

    async def back(event: Any) -> None:
        await first.publish("end", event.payload)

    first.subscribe("begin", there)
    second.subscribe("there", back)
    first.subscribe("end", end)
    await first.start()
    await second.start()
    await asyncio.wait_for(asyncio.gather(*(first.publish("begin", number) for number in range(20))), 60)
    assert sorted(end.payloads) == list(range(20))


async def test_what_a_handler_started_is_not_nested_once_the_handler_has_ended(make_bus) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=1, poll_interval=0.01)).start()
    gate, inner = Gate(), Recorder()
    late: list[asyncio.Task[Any]] = []
    ended = asyncio.Event()

    async def afterwards() -> None:
        await ended.wait()
        await bus.publish("inner", 1)

    async def outer(event: Any) -> None:
        late.append(asyncio.create_task(afterwards()))

    for pattern, handler in (("outer", outer), ("gate", gate), ("inner", inner)):
        bus.subscribe(pattern, handler)
    await bus.publish("outer", 1)
    publisher = asyncio.create_task(bus.publish("gate", 1))
    await until(lambda: gate.inside)
    ended.set()
    await until(lambda: bus.counters["inner"].total)
    assert not inner.events, "it waits for the slot like everybody else"
    gate.open.set()
    await asyncio.gather(publisher, *late)
    assert inner.payloads == [1]


async def test_slots_are_all_free_after_nesting(make_bus, store) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=3, poll_interval=0.01)).start()

    async def outer(event: Any) -> None:
        await bus.publish("inner", 1)
        await bus.publish("inner", 1, ordering_key=str(event.payload % 2))
        await bus.publish("inner", 1, idempotency_key="once")

    bus.subscribe("outer", outer)
    bus.subscribe("inner", Recorder(failures=5))
    await asyncio.gather(*(bus.publish("outer", number) for number in range(10)))
    await until(lambda: not bus._parts.flights.tasks)
    assert bus._parts.flights.free == 3
    (stats,) = await store.stats("bus")
    assert stats.depth[Status.COMPLETED] == 10 + 20 + 1
