"""Recovery: what a dead process held is taken up again, whatever else is in the store."""

import asyncio
import signal
import time
from datetime import timedelta
from typing import Any

import pytest

from eventhub.bus import EventBus
from eventhub.core.events import Action, Status
from eventhub.core.retry import RetryPolicy
from eventhub.store import open_store
from eventhub.store.values import EventFilter, NewEvent, Route
from eventhub.store.workers import new_worker, retire
from tests.bus.support import Gate, Recorder, python, until

STUCK = """
import asyncio, sys
from eventhub.bus import EventBus
from eventhub.core.retry import RetryPolicy

async def main():
    bus = await EventBus(sys.argv[1], retry=RetryPolicy(max_retries=int(sys.argv[2]))).start()
    inside = asyncio.Event()
    async def hang(event):
        inside.set()
        await asyncio.sleep(3600)
    bus.subscribe("work.*", hang, name="work")
    await bus.publish("work.a", {"n": 1}, metadata={"keep": "me"}, wait=False)
    await inside.wait()
    print("stuck", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def kill_a_process_in_its_handler(url: str, *, max_retries: int = 3) -> None:
    process = python(STUCK, url, str(max_retries))
    assert process.stdout is not None
    assert "stuck\n" in iter(process.stdout.readline, "")
    process.send_signal(signal.SIGKILL)
    process.communicate()


async def test_an_event_whose_process_was_killed_is_handled_at_the_next_start(store_url, make_bus, store, dlq) -> None:
    await asyncio.to_thread(kill_a_process_in_its_handler, store_url)
    (stuck,) = await store.events(EventFilter())
    assert stuck.status is Status.PROCESSING
    bus: EventBus = make_bus()
    handler = Recorder()
    bus.subscribe("work.*", handler, name="work")
    await bus.start()
    await until(lambda: handler.events)
    (event,) = handler.events
    assert (event.id, event.payload, event.metadata) == (stuck.id, {"n": 1}, {"keep": "me"})
    assert (event.attempts, event.fence, event.retry_count) == (2, 2, 1), "the lost attempt counts"
    await until(lambda: _is(store, stuck.id, Status.COMPLETED))
    assert Action.ABANDONED in [entry.action for entry in await store.log(stuck.id)]
    assert (await dlq.list()).total == 0


async def test_an_event_that_kills_every_worker_ends_in_the_dead_letters(store_url, make_bus, store, dlq) -> None:
    await asyncio.to_thread(kill_a_process_in_its_handler, store_url, max_retries=0)
    bus = make_bus()
    handler = Recorder()
    bus.subscribe("work.*", handler, name="work")
    await bus.start()
    (event,) = (await dlq.list()).events
    assert (event.reason, event.retry_count) == ("worker_lost", 1)
    assert len(event.errors) == 1
    assert handler.events == []


async def _is(store: Any, event_id: int, status: Status) -> bool:
    return bool((await store.event(event_id)).status is status)


async def test_destroy_is_like_a_crash_and_the_next_start_takes_over(make_bus, store) -> None:
    first = await make_bus().start()
    gate = Gate()
    first.subscribe("*", gate, name="work")
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    await first.destroy()
    assert gate.cancelled == 1
    assert await _is(store, event_id, Status.PROCESSING), "it charges nothing itself"
    second = make_bus()
    handler = Recorder()
    second.subscribe("*", handler, name="work")
    await second.start()
    await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert handler.events[0].attempts == 2


async def stuck_events(store: Any, count: int, *, event_type: str = "a") -> None:
    """Events leased to a worker that is gone, as a crash leaves them."""
    worker = new_worker()
    new = NewEvent(
        type=event_type,
        payload="1",
        route=Route("bus"),
        worker=worker,
        lease=timedelta(hours=1),
        max_attempts=4,
    )
    await store.publish([new] * count)
    retire(worker)


@pytest.mark.alone
async def test_a_hundred_stuck_events_are_claimable_in_a_tenth_of_a_second(sqlite_path) -> None:
    async with open_store(sqlite_path) as store:
        await stuck_events(store, 100)
        bus = EventBus(store)
        started = time.perf_counter()
        await bus.start()
        took = time.perf_counter() - started
        pending = await store.events(EventFilter(status=Status.PENDING, limit=200))
        await bus.destroy()
    assert len(pending) == 100
    assert took < 0.1


async def test_all_stuck_events_are_handled(make_bus, store) -> None:
    await stuck_events(store, 100)
    bus, handler = make_bus(), Recorder()
    bus.subscribe("*", handler)
    await bus.start()
    await until(lambda: len(handler.events) == 100)
    assert {event.attempts for event in handler.events} == {2}


async def test_rows_without_a_matching_subscription_stay_pending(make_bus, store) -> None:
    await stuck_events(store, 3, event_type="unwanted")
    await stuck_events(store, 3, event_type="wanted")
    bus, handler = make_bus(), Recorder()
    bus.subscribe("wanted", handler)
    await bus.start()
    await until(lambda: len(handler.events) == 3)
    await until(lambda: bus._parts.flights.free == 1000)
    left = await store.events(EventFilter(status=Status.PENDING))
    assert [event.type for event in left] == ["unwanted"] * 3
    assert {event.attempts for event in left} == {1}, "they were not touched again"


async def test_pending_events_are_taken_up_when_their_handler_subscribes_after_the_start(make_bus, store) -> None:
    await store.publish([NewEvent(type="late.comer", payload="1", route=Route("bus"))])
    bus = await make_bus().start()
    await until(lambda: store.wakeups.waiting)
    handler = Recorder()
    bus.subscribe("late.*", handler)
    await until(lambda: handler.events)


async def test_subscriptions_made_right_after_the_start_all_count(make_bus, store) -> None:
    await store.publish([NewEvent(type="a", payload="1", route=Route("bus"))])
    async with make_bus() as bus:
        first, second = Recorder(), Recorder()
        bus.subscribe("*", first)
        bus.subscribe("a", second)
        await until(lambda: first.events and second.events)


async def test_errors_and_metadata_survive_the_crash(make_bus, store, dlq) -> None:
    first = await make_bus(retry=RetryPolicy(max_retries=2, base_delay=0.001, jitter=0)).start()
    gate = Gate()

    async def fails_then_hangs(event: Any) -> None:
        if event.attempts == 1:
            raise ValueError("first")
        await gate(event)

    first.subscribe("*", fails_then_hangs, name="work")
    event_id = await first.publish("a", 1, {"k": "v"}, wait=False)
    await until(lambda: gate.inside)
    await first.destroy()
    second = make_bus(retry=RetryPolicy(max_retries=2, base_delay=0.001))
    second.subscribe("*", Recorder(failures=99, error="third"), name="work")
    await second.start()
    await until(lambda: _is(store, event_id, Status.FAILED))
    dead = await dlq.get(event_id)
    assert dead.metadata == {"k": "v"}
    assert dead.errors[0] == "ValueError: first"
    assert dead.errors[1].startswith("Abandoned")
    assert dead.errors[2] == "RuntimeError: third"


UNREADABLE = "1e999"
"""A number that JSON can say and no float can hold: it passes any database and fails where it is read."""


async def test_one_unreadable_row_never_stops_the_others(make_bus, store) -> None:
    payloads = ["0", "1", UNREADABLE, "3", "4"]
    published = await store.publish([NewEvent(type="a", payload=text, route=Route("bus")) for text in payloads])
    bus, handler = make_bus(), Recorder()
    bus.subscribe("*", handler)
    await bus.start()
    await until(lambda: len(handler.events) == 5)
    assert handler.payloads == [0, 1, UNREADABLE, 3, 4], "its text is all that can be given"
    await bus.shutdown()
    assert await store.current([event.id for event in published]) == {}


async def test_a_running_bus_keeps_its_claims_when_another_starts(make_bus, store) -> None:
    first = await make_bus().start()
    gate = Gate()
    first.subscribe("*", gate)
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    second = make_bus()
    handler = Recorder()
    second.subscribe("*", handler)
    await second.start()
    await second.publish("b", 2)
    gate.open.set()
    await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert handler.payloads == [2]


@pytest.mark.alone
async def test_events_survive_a_process_that_is_killed_again_and_again(store_url, make_bus, store) -> None:
    for _ in range(3):
        await asyncio.to_thread(kill_a_process_in_its_handler, store_url, max_retries=20)
    bus, handler = make_bus(), Recorder()
    bus.subscribe("*", handler, name="work")
    await bus.start()
    await until(lambda: len(handler.events) == 3)
    await until(lambda: bus._parts.flights.free == 1000)
    assert {event.status for event in await store.events(EventFilter())} == {Status.COMPLETED}
