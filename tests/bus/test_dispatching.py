"""The dispatcher among others: shared work, lost claims, long handlers, and a database that goes away."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventhub.bus import EventBus, Tuning
from eventhub.clock import ManualClock
from eventhub.core.events import Status
from eventhub.core.lifecycle import Complete
from eventhub.core.retry import RetryPolicy
from eventhub.errors import EventHubError
from eventhub.store import open_store
from eventhub.store.values import NewEvent, Report, Route
from tests.bus.support import LIVELY, QUICK, Gate, Recorder, lease, until


async def test_two_buses_share_the_work_and_each_event_is_handled_once(make_bus, store_url) -> None:
    handler = Recorder()
    buses = [make_bus(store_url), make_bus(store_url)]
    for bus in buses:
        bus.subscribe("*", handler)
        await bus.start()
    await buses[0].publish_many([("a", number) for number in range(300)])
    await until(lambda: len(handler.events) == 300)
    assert sorted(handler.payloads) == list(range(300))


async def test_buses_of_different_names_do_not_see_each_others_events(make_bus) -> None:
    here, there = Recorder(), Recorder()
    first, second = make_bus(name="first"), make_bus(name="second")
    first.subscribe("*", here)
    second.subscribe("*", there)
    await first.start()
    await second.start()
    await first.publish_many([("a", 1)])
    await second.publish("a", 2)
    await until(lambda: here.events)
    assert (here.payloads, there.payloads) == ([1], [2])


async def test_a_publisher_follows_an_event_that_another_process_settles(make_bus, store_url, store) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=1, poll_interval=0.01)).start()
    gate = Gate()
    bus.subscribe("*", gate, name="work")
    await bus.publish("a", "fills the slot", wait=False)
    await until(lambda: gate.inside)
    waiting = asyncio.create_task(bus.publish("a", "for the other"))
    other = make_bus(store_url)
    handler = Recorder()
    other.subscribe("*", handler, name="work")
    await other.start()
    event_id = await asyncio.wait_for(waiting, 10)
    assert handler.payloads == ["for the other"]
    assert (await store.event(event_id)).status is Status.COMPLETED


async def test_a_handler_that_takes_longer_than_the_lease_keeps_its_claim(make_bus, store_url, store) -> None:
    bus = await make_bus(tuning=lease(1.0)).start()
    rival = make_bus(store_url, tuning=lease(1.0))
    gate, other = Gate(), Recorder()
    bus.subscribe("*", gate)
    event_id = await bus.publish("a", 1, wait=False)
    rival.subscribe("*", other)
    await rival.start()
    first = (await store.event(event_id)).lease_expires_at
    await until(lambda: _lease_moved(store, event_id, first + timedelta(seconds=1.1)))
    gate.open.set()
    await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert (gate.inside, len(other.events)) == (1, 0)


async def _lease_moved(store: Any, event_id: int, past: Any) -> bool:
    return bool((await store.event(event_id)).lease_expires_at > past)


async def _is(store: Any, event_id: int, status: Status) -> bool:
    return bool((await store.event(event_id)).status is status)


async def test_a_handler_whose_claim_is_lost_is_stopped_and_its_publisher_follows_the_store(
    make_bus, store, monkeypatch
) -> None:
    extend, taken = store.extend, asyncio.Event()

    async def extend_later(*args, **options):
        await taken.wait()  # the bus must not look between the two steps by which the claim goes to another
        return await extend(*args, **options)

    monkeypatch.setattr(store, "extend", extend_later)
    bus = await make_bus(tuning=lease(0.1), on_unmatched="keep").start()
    gate = Gate()
    subscription = bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    await bus.unsubscribe(subscription)
    with capture_logs() as logs:
        assert await store.reset(1, reason="an operator took it away")
        (claim,) = await store.claim_ids([1], worker="other", lease=timedelta(minutes=1))
        taken.set()
        await until(lambda: gate.cancelled)
        await store.settle([Report(claim.held, Complete())])
        assert await asyncio.wait_for(publisher, 10) == 1
    assert any(record["event"] == "claim_lost" for record in logs)
    assert (await store.event(1)).status is Status.COMPLETED


async def test_a_publisher_is_told_when_its_event_is_taken_back_and_nobody_here_wants_it(make_bus, store) -> None:
    bus = await make_bus(tuning=lease(0.1), on_unmatched="keep").start()
    gate = Gate()
    subscription = bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    await bus.unsubscribe(subscription)
    with capture_logs():
        assert await store.reset(1, reason="an operator took it away")
        with pytest.raises(EventHubError, match="stays PENDING"):
            await asyncio.wait_for(publisher, 10)
    assert gate.cancelled


async def test_an_event_that_is_taken_from_its_handler_starts_again_and_the_first_run_is_stopped(bus, store) -> None:
    gate = Gate()
    bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    with capture_logs():
        assert await store.reset(1, reason="an operator wants it tried again")
        await until(lambda: gate.inside == 2 and gate.cancelled == 1)
    gate.open.set()
    assert await asyncio.wait_for(publisher, 10) == 1
    assert await _is(store, 1, Status.COMPLETED)


async def test_the_report_of_a_lost_claim_changes_nothing(make_bus, store) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=1, poll_interval=0.01)).start()
    gate = Gate()
    bus.subscribe("*", gate)
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: gate.inside)
    assert await store.reset(1, reason="an operator took it away")
    (claim,) = await store.claim_ids([1], worker="other", lease=timedelta(minutes=1))
    with capture_logs() as logs:
        gate.open.set()
        await until(lambda: any(record["event"] == "claim_lost" for record in logs))
    assert await _is(store, 1, Status.PROCESSING), "the successor's claim stands"
    assert not publisher.done()
    await store.settle([Report(claim.held, Complete())])
    assert await asyncio.wait_for(publisher, 10) == 1


async def test_an_abandoned_claim_is_taken_over_strictly_after_its_lease(make_bus, store) -> None:
    clock = ManualClock()
    new = NewEvent(
        type="a",
        payload="1",
        route=Route("bus"),
        worker="elsewhere:1:other-1-1",
        lease=timedelta(seconds=60),
        max_attempts=4,
    )
    await store.publish([new], now=clock.now())
    bus = await make_bus(clock=clock).start()
    handler = Recorder()
    bus.subscribe("*", handler)
    clock.advance(60)
    for _ in range(3):
        bus._dispatcher.wake()
        await until(lambda: store.wakeups.waiting)
    assert handler.events == [], "exactly at the limit it is not abandoned yet"
    clock.advance(timedelta(microseconds=1))
    await until(lambda: handler.events)
    assert handler.events[0].attempts == 2


async def test_events_that_wait_for_a_slot_go_before_those_published_later(make_bus) -> None:
    bus = await make_bus(tuning=Tuning(concurrency=1, poll_interval=30)).start()
    gate, handler = Gate(), Recorder()

    async def both(event: Any) -> None:
        await gate(event)
        await handler(event)
        if event.payload < 20:
            await bus.publish("a", event.payload + 20, wait=False)

    bus.subscribe("*", both)
    for number in range(20):
        await bus.publish("a", number, wait=False)
    gate.open.set()
    await until(lambda: len(handler.events) == 40)
    assert handler.payloads == list(range(40))


async def test_thousands_of_unwanted_rows_do_not_hold_up_the_wanted_ones(make_bus, store) -> None:
    unwanted = NewEvent(type="unwanted", payload="1", route=Route("bus"))
    await store.publish([unwanted] * 5000)
    bus = await make_bus().start()
    handler = Recorder()
    bus.subscribe("wanted", handler)
    await asyncio.gather(*(bus.publish("wanted", number, ordering_key=str(number)) for number in range(50)))
    assert len(handler.events) == 50
    (stats,) = await store.stats("bus")
    assert stats.depth[Status.PENDING] == 5000


class CountingReads:
    """How often the ready rows are listed, counted at the store's own method."""

    def __init__(self, store: Any) -> None:
        self.rows = 0
        self._ready = store.ready
        store.ready = self

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        rows = await self._ready(*arguments, **named)
        self.rows += len(rows)
        return rows


@pytest.mark.alone
async def test_unwanted_rows_are_not_read_in_a_hot_loop(make_bus, store) -> None:
    await store.publish([NewEvent(type="unwanted", payload="1", route=Route("bus"))] * 2000)
    reads = CountingReads(store)
    bus = await make_bus(tuning=Tuning(poll_interval=0.2)).start()
    bus.subscribe("wanted", Recorder())
    await until(lambda: reads.rows >= 2000)
    started, before = time.monotonic(), reads.rows
    while time.monotonic() - started < 0.5:
        await bus.publish("wanted", 1)
    elapsed = time.monotonic() - started
    scans = (reads.rows - before) / 2000
    assert scans <= elapsed / 0.02, "going through them all takes a small share of the time"


async def test_the_bus_survives_a_database_that_goes_away_and_comes_back(postgres, postgres_url) -> None:
    async with open_store(postgres_url) as store:
        bus = EventBus(store, retry=QUICK, tuning=LIVELY)
        gate, handler = Gate(), Recorder()
        bus.subscribe("gate", gate)
        bus.subscribe("work", handler)
        await bus.start()
        inside = asyncio.create_task(bus.publish("gate", 1))
        await until(lambda: gate.inside)
        with capture_logs() as logs:
            await asyncio.to_thread(postgres.stop, "immediate")
            gate.open.set()
            await until(lambda: any(record["event"] == "settle_failed" for record in logs))
            await asyncio.to_thread(postgres.start)
            await asyncio.wait_for(inside, 30)
            await until(lambda: _publishes(bus))
        assert await _is(store, await inside, Status.COMPLETED)
        assert handler.events
        await bus.destroy()


async def _publishes(bus: EventBus) -> bool:
    try:
        return bool(await bus.publish("work", 1))
    except Exception:  # noqa: BLE001 - the pool may hold a dead connection for a moment
        return False


async def test_retries_go_on_when_other_faces_tend_the_store(make_bus, store) -> None:
    bus = await make_bus(retry=RetryPolicy(max_retries=5, base_delay=0.02, jitter=0)).start()
    handler = Recorder(failures=3)
    bus.subscribe("*", handler)
    publisher = asyncio.create_task(bus.publish("a", 1))
    while not publisher.done():
        await store.tend()
        await asyncio.sleep(0.001)
    assert len(handler.events) == 4
