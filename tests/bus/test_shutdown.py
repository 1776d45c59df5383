"""The end of a bus: nothing new, what is in hand finishes, the rest goes back unharmed; in any order."""

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventhub.bus import EventBus, Tuning
from eventhub.core.events import Action, Status
from eventhub.core.retry import RetryPolicy
from eventhub.errors import EventBusShutdownError, StoreClosed
from eventhub.store import open_store
from tests.bus.support import LIVELY, Gate, Recorder, until

SLOW_RETRY = RetryPolicy(max_retries=3, base_delay=3600, max_delay=3600)


async def _status(store: Any, event_id: int) -> str:
    return str((await store.event(event_id)).status)


async def test_after_shutdown_publish_and_subscribe_are_refused(bus) -> None:
    await bus.shutdown()
    for refused in (lambda: bus.publish("a", 1), lambda: bus.publish_many([("a", 1)]), bus.start):
        with pytest.raises(EventBusShutdownError, match="Make a new EventBus"):
            await refused()
    with pytest.raises(EventBusShutdownError):
        bus.subscribe("*", Recorder())


async def test_new_work_is_refused_while_it_still_drains(bus) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    first = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await asyncio.sleep(0)
    with pytest.raises(EventBusShutdownError):
        await bus.publish("a", 2)
    with pytest.raises(EventBusShutdownError):
        bus.subscribe("*", Recorder())
    assert not ending.done()
    gate.open.set()
    await first
    await ending


async def test_it_waits_for_events_in_hand_also_those_nobody_waits_for(bus, store) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    ids = [await bus.publish("a", number, wait=False) for number in range(5)]
    await until(lambda: gate.inside == 5)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._dispatcher._draining)
    gate.open.set()
    await ending
    assert [await _status(store, event_id) for event_id in ids] == ["COMPLETED"] * 5


async def test_what_takes_too_long_is_cancelled_and_released_without_charge(make_bus, store) -> None:
    bus = await make_bus(shutdown_timeout=0.05).start()
    gate = Gate()
    bus.subscribe("*", gate, name="work")
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    await bus.shutdown()
    with pytest.raises(EventBusShutdownError, match=r"event 1 .* stored and will be processed at the next start"):
        await publisher
    assert gate.cancelled == 1
    event = await store.event(1)
    assert (event.status, event.attempts, event.retry_count, event.errors) == (Status.PENDING, 0, 0, ())
    assert [entry.action for entry in await store.log(1)][-1] is Action.RELEASED
    second = make_bus()
    handler = Recorder()
    second.subscribe("*", handler, name="work")
    await second.start()
    await until(lambda: handler.events)
    assert handler.events[0].attempts == 1


async def test_a_handler_that_succeeded_before_the_release_does_not_run_again(make_bus, store) -> None:
    first = await make_bus(retry_scope="handler", shutdown_timeout=0.05).start()
    good, gate = Recorder(), Gate()
    first.subscribe("*", good)
    first.subscribe("*", gate)
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    await first.shutdown()
    event = await store.event(event_id)
    assert (event.status, event.attempts) == (Status.PENDING, 0)
    second = make_bus(retry_scope="handler")
    gate.open.set()
    second.subscribe("*", good)
    second.subscribe("*", gate)
    await second.start()
    await until(lambda: _is_completed(store, event_id))
    assert (len(good.events), gate.inside) == (1, 2)


async def _is_completed(store: Any, event_id: int) -> bool:
    return await _status(store, event_id) == "COMPLETED"


async def test_a_plain_handler_that_hangs_does_not_hold_up_the_end(make_bus, store) -> None:
    bus = await make_bus(shutdown_timeout=0.05).start()
    release, inside = threading.Event(), threading.Event()

    @bus.on("*")
    def hang(event: Any) -> None:
        inside.set()
        release.wait(30)

    event_id = await bus.publish("a", 1, wait=False)
    await until(inside.is_set)
    await bus.shutdown()
    release.set()
    assert await _status(store, event_id) == "PENDING"


async def test_a_retry_that_a_publisher_waits_for_is_part_of_the_drain(make_bus, store) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=0.1, jitter=0)).start()
    bus.subscribe("*", Recorder(failures=1))
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: bus.counters["a"].retries)
    await bus.shutdown()
    assert await _status(store, await publisher) == "COMPLETED"


async def test_a_retry_that_nobody_waits_for_is_left_for_the_next_start(make_bus, store) -> None:
    bus = await make_bus(retry=SLOW_RETRY).start()
    bus.subscribe("*", Recorder(failures=1))
    event_id = await bus.publish("a", 1, wait=False)
    await until(lambda: bus.counters["a"].retries)
    await asyncio.wait_for(bus.shutdown(), 5)
    event = await store.event(event_id)
    assert (event.status, event.retry_count) == (Status.PENDING, 1)


async def test_ready_events_that_nobody_waits_for_are_not_started_during_the_drain(make_bus, store) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=1, poll_interval=0.01)).start()
    gate = Gate()
    bus.subscribe("*", gate)
    await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    left = await bus.publish("a", 2, wait=False)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._dispatcher._draining)
    gate.open.set()
    await ending
    assert gate.inside == 1
    assert await _status(store, left) == "PENDING"


async def test_a_publisher_in_backoff_is_told_when_the_drain_times_out(make_bus, store) -> None:
    bus = await make_bus(retry=SLOW_RETRY, shutdown_timeout=0.05).start()
    bus.subscribe("*", Recorder(failures=1))
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: bus.counters["a"].retries)
    await bus.shutdown()
    with pytest.raises(EventBusShutdownError):
        await publisher
    assert await _status(store, 1) == "PENDING"


ORDERS = [
    ["shutdown", "shutdown"],
    ["destroy", "destroy"],
    ["shutdown", "destroy"],
    ["destroy", "shutdown"],
    ["shutdown", "destroy", "shutdown", "destroy"],
]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("started", [True, False], ids=["started", "never started"])
async def test_shutdown_and_destroy_may_come_in_any_order(make_bus, store_url, order, started) -> None:
    bus = make_bus(store_url)
    if started:
        await bus.start()
        bus.subscribe("*", Recorder())
        await bus.publish("a", 1)
    for how in order:
        await getattr(bus, how)()
    assert bus.store.closed


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_shutdown_and_destroy_may_come_at_the_same_time(make_bus, store_url, order) -> None:
    bus = await make_bus(store_url).start()
    gate = Gate()
    bus.subscribe("*", gate)
    await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    endings = [asyncio.create_task(getattr(bus, how)()) for how in order]
    await asyncio.sleep(0)
    if "destroy" not in order:
        gate.open.set()
    await asyncio.wait_for(asyncio.gather(*endings), 10)
    assert bus.store.closed


async def test_destroy_cuts_a_drain_short(bus, store) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._dispatcher._draining)
    await bus.destroy()
    assert ending.done() or await asyncio.wait_for(ending, 10) is None
    assert gate.cancelled == 1
    with pytest.raises(EventBusShutdownError):
        await publisher
    assert await _status(store, 1) == "PROCESSING"


async def test_a_shutdown_whose_caller_is_cancelled_still_comes_to_its_end(bus) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._dispatcher._draining)
    ending.cancel()
    gate.open.set()
    await bus.shutdown()
    assert not bus._parts.flights.tasks


async def test_a_store_that_was_passed_in_stays_open(bus, store) -> None:
    await bus.shutdown()
    assert not store.closed
    assert await store.schema_version()


async def test_a_store_the_bus_opened_is_closed(make_bus, store_url) -> None:
    async with make_bus(store_url) as bus:
        bus.subscribe("*", Recorder())
        await bus.publish("a", 1)
    with pytest.raises(StoreClosed):
        await bus.store.event(1)


async def test_a_shutdown_during_the_start_waits_for_it(make_bus, store_url) -> None:
    bus = make_bus(store_url)
    starting = asyncio.create_task(bus.start())
    await asyncio.sleep(0)
    await bus.shutdown()
    await asyncio.gather(starting, return_exceptions=True)
    assert bus.store.closed
    assert all(task.done() for task in bus._tasks)


async def test_publishes_racing_a_shutdown_either_count_or_are_refused(make_bus, store_url) -> None:
    bus = await make_bus(store_url).start()
    handler = Recorder()
    bus.subscribe("*", handler)
    publishers = [asyncio.create_task(bus.publish("a", number)) for number in range(200)]
    await until(lambda: handler.events)
    await bus.shutdown()
    results = await asyncio.gather(*publishers, return_exceptions=True)
    assert all(isinstance(result, int | EventBusShutdownError) for result in results)
    async with open_store(store_url) as store:
        for result in results:
            if isinstance(result, int):
                assert await _status(store, result) == "COMPLETED"


async def test_publishers_still_being_stored_when_the_bus_is_destroyed_are_told(make_bus, store_url) -> None:
    bus = await make_bus(store_url).start()
    bus.subscribe("*", Recorder())
    publishers = [asyncio.create_task(bus.publish("a", number)) for number in range(20)]
    await asyncio.sleep(0)
    await bus.destroy()
    results = await asyncio.gather(*publishers, return_exceptions=True)
    assert all(isinstance(result, int | EventBusShutdownError) for result in results)


async def test_a_store_closed_by_its_owner_does_not_break_the_end(store_url) -> None:
    store = await open_store(store_url)
    bus = EventBus(store, tuning=LIVELY)
    await bus.start()
    gate = Gate()
    bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    with capture_logs():
        await store.close()
        gate.open.set()
        with pytest.raises(StoreClosed, match="event 1"):
            await asyncio.wait_for(publisher, 10)
        await asyncio.wait_for(bus.shutdown(), 10)


async def test_what_handlers_publish_during_the_drain_is_stored_and_handled_if_there_is_time(make_bus, store) -> None:
    bus = await make_bus().start()
    gate, inner, ids = Gate(), Recorder(), []

    async def outer(event: Any) -> None:
        await gate(event)
        ids.append(await bus.publish("inner", "waited for"))
        ids.append(await bus.publish("inner", "not waited for", wait=False))
        ids.extend(await bus.publish_many([("inner", "one of many")]))

    bus.subscribe("outer", outer)
    bus.subscribe("inner", inner)
    event_id = await bus.publish("outer", 1, wait=False)
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._ending.begun)
    gate.open.set()
    await ending
    assert [(await store.event(each)).status for each in (event_id, *ids[:2])] == [Status.COMPLETED] * 3
    last = await store.event(ids[2])
    assert (last.status, last.attempts) in {(Status.COMPLETED, 1), (Status.PENDING, 0)}, (
        "at the next start at the latest"
    )
    assert {"waited for", "not waited for"} <= set(inner.payloads)


async def test_only_running_handlers_may_publish_while_the_bus_drains(make_bus) -> None:
    bus = await make_bus().start()
    gate = Gate()
    bus.subscribe("*", gate)
    await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._ending.begun)
    with pytest.raises(EventBusShutdownError):
        await bus.publish("a", 2)
    gate.open.set()
    await ending


async def test_a_handler_that_the_shutdown_made_fail_is_charged_no_attempt(make_bus, store) -> None:
    bus = await make_bus(retry=RetryPolicy(max_retries=0)).start()
    gate = Gate()

    async def subscribes(event: Any) -> None:
        await gate(event)
        try:
            bus.subscribe("b", gate)
        except EventBusShutdownError:
            raise ValueError("told in its own words") from None

    bus.subscribe("a", subscribes)
    event_id = await bus.publish("a", 1, wait=False)
    await until(lambda: gate.inside)
    ending = asyncio.create_task(bus.shutdown())
    await until(lambda: bus._ending.begun)
    gate.open.set()
    await ending
    event = await store.event(event_id)
    assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 0, 0)
    assert Action.RELEASED in [entry.action for entry in await store.log(event_id)]


async def test_a_plain_handler_that_publishes_when_the_drain_is_over_is_charged_no_attempt(make_bus, store) -> None:
    loop = asyncio.get_running_loop()
    bus = await make_bus(shutdown_timeout=0.05, retry=RetryPolicy(max_retries=0)).start()
    inside, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def plain(event: Any) -> None:
        inside.set()
        go_on.wait(60)
        try:
            asyncio.run_coroutine_threadsafe(bus.publish("a", 2), loop).result(60)
        finally:
            ended.set()

    bus.subscribe("a", plain)
    event_id = await bus.publish("a", 1, wait=False)
    await until(inside.is_set)
    await bus.shutdown()
    go_on.set()
    await until(ended.is_set)
    event = await store.event(event_id)
    assert (event.status, event.attempts) == (Status.PENDING, 0)
