"""Several programs on one bus: an event is COMPLETED when the handlers that it remembers have all succeeded."""

import asyncio
import subprocess
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventhub.clock import ManualClock
from eventhub.core.events import Status
from eventhub.core.retry import RetryPolicy
from eventhub.errors import EventHubError, HandlerExistsError, SettingsError, StoreFull
from eventhub.store import open_store
from eventhub.store.buses import MissingHandlers
from eventhub.store.values import EventFilter
from tests.bus.support import QUICK, Gate, Recorder, python, until

EVENTS = 20

SHOP = """
import asyncio, sys
from eventhub.bus import EventBus, Tuning
from eventhub.core.retry import RetryPolicy

async def main():
    bus = EventBus(sys.argv[1], retry=RetryPolicy(base_delay=0.05, jitter=0), tuning=Tuning(poll_interval=0.05))

    @bus.on("order.*")
    async def ship(event):
        if event.attempts == 1:
            raise ValueError("not yet")
        print("shipped", event.payload, flush=True)

    async with bus:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(bus.publish("order.paid", number) for number in range(int(sys.argv[2]))))

asyncio.run(main())
"""

AUDIT = """
import asyncio, sys
from eventhub.bus import EventBus, Tuning

async def main():
    bus = EventBus(sys.argv[1], tuning=Tuning(poll_interval=0.01))

    @bus.on("*")
    async def audit(event):
        print("audited", event.id, flush=True)

    async with bus:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""

CRASHING_SHOP = """
import asyncio, os, sys
from eventhub.bus import EventBus
from eventhub.core.retry import RetryPolicy

async def main():
    bus = await EventBus(sys.argv[1], retry=RetryPolicy(base_delay=0.05, jitter=0)).start()

    @bus.on("order.*")
    async def ship(event):
        raise ValueError("not yet")

    await bus.publish("order.paid", 1, wait=False)
    while not bus.counters["order.paid"].retries:
        await asyncio.sleep(0.001)
    os._exit(1)

asyncio.run(main())
"""


class Program:
    """One of these programs, which is told to go on by a line on its standard input."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.process: subprocess.Popen[str] = python(script, *arguments)

    async def is_ready(self) -> "Program":
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line == "ready\n", line
        return self

    async def end(self) -> list[str]:
        """Let it go on and end; the rest of what it printed."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("go on\n")
        stdin.flush()
        lines = await asyncio.to_thread(stdout.readlines)  # what readline has read ahead, too
        await asyncio.to_thread(self.process.communicate)
        assert self.process.returncode == 0
        return [line.rstrip("\n") for line in lines]


@pytest.fixture
def programs():
    """Starts programs, and ends those that are left over."""
    started: list[Program] = []

    def start(script: str, *arguments: str) -> Program:
        started.append(Program(script, *arguments))
        return started[-1]

    yield start
    for program in started:
        if program.process.stdout is not None and not program.process.stdout.closed:
            program.process.kill()
            program.process.communicate()


async def test_a_retry_is_never_completed_by_a_program_that_lacks_the_handler(store_url, store, programs) -> None:
    audit = await programs(AUDIT, store_url).is_ready()
    shop = await programs(SHOP, store_url, str(EVENTS)).is_ready()
    shipped = await shop.end()
    assert sorted(shipped) == sorted(f"shipped {number}" for number in range(EVENTS))
    assert await audit.end() == [], "it was not there when the events were published"
    events = await store.events(EventFilter(limit=100))
    assert [event.status for event in events] == [Status.COMPLETED] * EVENTS


async def test_what_a_killed_program_left_waits_for_one_that_has_its_handlers(store_url, store, programs) -> None:
    crashed = programs(CRASHING_SHOP, store_url)
    await asyncio.to_thread(crashed.process.communicate)
    audit = await programs(AUDIT, store_url).is_ready()
    await until(lambda: _is_missing(store, ("__main__.main.<locals>.ship",)))
    (event,) = await store.events(EventFilter())
    assert event.status is Status.PENDING
    shop = await programs(SHOP, store_url, "0").is_ready()
    await until(lambda: _is(store, event.id, Status.COMPLETED))
    assert await shop.end() == ["shipped 1"]
    assert await audit.end() == []
    assert await store.missing_handlers() == []


async def _is_missing(store: Any, names: tuple[str, ...], clock: ManualClock | None = None) -> bool:
    found = await store.missing_handlers(now=None if clock is None else clock.now())
    return [(each.queue, each.handlers, each.events) for each in found] == [("bus", names, 1)]


async def _is(store: Any, event_id: int, status: Status) -> bool:
    return bool((await store.event(event_id)).status is status)


async def test_retries_stay_with_their_bus_while_it_lives(make_bus, store_url) -> None:
    slow = RetryPolicy(max_retries=5, base_delay=0.02, jitter=0)
    first, second = make_bus(retry=slow), make_bus(store_url, retry=slow)
    mine, other = Recorder(failures=4), Recorder()
    first.subscribe("*", mine, name="ship")
    second.subscribe("*", other, name="ship")
    await first.start()
    await second.start()
    await first.publish("a", 1)
    assert (len(mine.events), other.events) == (5, [])


async def test_an_event_belongs_to_the_bus_that_took_it_over(make_bus, store, store_url) -> None:
    clock = ManualClock()
    policy = RetryPolicy(max_retries=5, base_delay=10, multiplier=1, jitter=0)
    first = make_bus(retry=policy, clock=clock)
    first.subscribe("*", Recorder(failures=1), name="ship")
    await first.start()
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    second, third = (make_bus(store_url, retry=policy, clock=clock) for _ in range(2))
    taker, bystander = Recorder(failures=3), Recorder()
    second.subscribe("*", taker, name="ship")
    await second.start()
    clock.advance(10)
    await until(lambda: second.counters["a"].retries == 1)
    third.subscribe("*", bystander, name="ship")
    await third.start()
    for retries in (2, 3):
        clock.advance(10)  # less than the lease by which a bus counts as alive
        await until(lambda: second.counters["a"].retries == retries)  # noqa: B023
        await second._presence.announce()
        await third._presence.announce()
    clock.advance(10)
    await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert (len(taker.events), bystander.events) == (4, [])


async def test_a_bus_that_is_not_heard_of_for_a_lease_has_left_its_events_behind(make_bus, store, store_url) -> None:
    clock = ManualClock()
    await store.announce_bus("elsewhere:1:other-1-1", "bus", ["ship"], lease=timedelta(seconds=60), now=clock.now())
    await _publish_for(store, "elsewhere:1:other-1-1", clock)
    bus = make_bus(clock=clock)
    handler = Recorder()
    bus.subscribe("*", handler, name="ship")
    await bus.start()
    clock.advance(timedelta(seconds=60) - timedelta(microseconds=1))
    for _ in range(3):
        bus._dispatcher.wake()
        await until(lambda: store.wakeups.waiting)
    assert handler.events == []
    clock.advance(timedelta(microseconds=1))
    await until(lambda: handler.events)


async def _publish_for(store: Any, owner: str, clock: ManualClock) -> None:
    """An event that a bus elsewhere has begun and given back."""
    from eventhub.core.lifecycle import Release
    from eventhub.store.buses import RequiredHandlers, dump_names
    from eventhub.store.claims import Held
    from eventhub.store.values import NewEvent, Report, Route

    required = RequiredHandlers(dump_names(["ship"]), owner)
    lease = timedelta(seconds=60)
    new = NewEvent(type="a", payload="1", route=Route("bus"), worker=owner, lease=lease, handlers=required)
    (published,) = await store.publish([new], now=clock.now())
    await store.settle([Report(Held(published.id, 1), Release())], now=clock.now())


async def test_events_that_nobody_has_begun_are_shared_by_all_who_have_the_handlers(make_bus, store_url) -> None:
    first, second = make_bus(), make_bus(store_url)
    gate, handler, stranger = Gate(), Recorder(), Recorder()
    first.subscribe("*", gate, name="ship")
    second.subscribe("*", handler, name="ship")
    second.subscribe("*", stranger, name="audit")
    await first.start()
    await second.start()
    first._parts.flights._free = 0  # all its slots are taken
    await first.publish_many([("a", number) for number in range(50)])
    await until(lambda: len(handler.events) == 50)
    assert stranger.events == [], "it did not match when they were published"


async def test_a_retry_runs_the_handlers_that_matched_when_the_event_was_published(make_bus) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=0.05, jitter=0)).start()
    failing, late = Recorder(failures=1), Recorder()
    bus.subscribe("*", failing, name="first")
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: failing.events)
    bus.subscribe("*", late, name="late")
    await publisher
    assert (len(failing.events), late.events) == (2, [])


async def test_a_handler_that_went_away_is_waited_for(make_bus, store) -> None:
    bus = await make_bus(retry=RetryPolicy(base_delay=0.02, jitter=0)).start()
    failing, other = Recorder(failures=1), Recorder()
    subscription = bus.subscribe("*", failing, name="ship")
    bus.subscribe("*", other, name="audit")
    publisher = asyncio.create_task(bus.publish("a", 1))
    await until(lambda: other.events)
    await bus.unsubscribe(subscription)
    with pytest.raises(EventHubError, match="stays PENDING"):
        await asyncio.wait_for(publisher, 20)
    await until(lambda: _is_missing(store, ("ship",)))
    assert len(other.events) == 1, "the others do not run without it"
    bus.subscribe("*", failing, name="ship")
    await until(lambda: len(failing.events) == 2)
    await until(lambda: _is(store, 1, Status.COMPLETED))


async def test_on_missing_skip_goes_on_with_the_handlers_that_are_there(make_bus, store) -> None:
    clock = ManualClock()
    first = await make_bus(clock=clock).start()
    first.subscribe("*", Recorder(failures=1), name="ship")
    first.subscribe("*", Recorder(), name="audit")
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    clock.advance(1)
    second = make_bus(clock=clock, on_missing="skip")
    audit = Recorder()
    second.subscribe("*", audit, name="audit")
    with capture_logs() as logs:
        await second.start()
        await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert len(audit.events) == 1
    assert [record["handlers"] for record in logs if record["event"] == "handlers_skipped"] == [["ship"]]


async def test_on_missing_skip_never_completes_an_event_without_any_of_its_handlers(make_bus, store) -> None:
    clock = ManualClock()
    first = await make_bus(clock=clock).start()
    first.subscribe("*", Recorder(failures=1), name="ship")
    await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    clock.advance(1)
    second = make_bus(clock=clock, on_missing="skip")
    audit = Recorder()
    second.subscribe("*", audit, name="audit")
    await second.start()
    await second.publish("b", 1)
    await until(lambda: _is_missing(store, ("ship",), clock))
    assert [event.type for event in audit.events] == ["b"]


async def test_closures_of_one_function_are_needed_as_often_as_they_were(make_bus, store) -> None:
    calls: list[str] = []
    clock = ManualClock()
    first = await make_bus(clock=clock).start()
    for number in range(2):
        first.subscribe("*", Recorder(failures=1, name=f"old {number}", into=calls))
    event_id = await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    clock.advance(1)
    second = make_bus(clock=clock)
    second.subscribe("*", Recorder(name="new 0", into=calls))
    await second.start()
    await until(lambda: _is_missing(store, ("tests.bus.support.Recorder",), clock))
    second.subscribe("*", Recorder(name="new 1", into=calls))
    await until(lambda: _is(store, event_id, Status.COMPLETED))
    assert calls == ["old 0", "old 1", "new 0", "new 1"]


async def test_a_retry_from_the_dead_letters_needs_the_same_handlers(make_bus, store, dlq) -> None:
    first = await make_bus(retry=QUICK).start()
    first.subscribe("*", Recorder(failures=99), name="ship")
    event_id = await first.publish("a", 1)
    await first.shutdown()
    await dlq.retry(event_id)
    second = make_bus()
    second.subscribe("*", Recorder(), name="audit")
    await second.start()
    await until(lambda: _is_missing(store, ("ship",)))
    second.subscribe("*", Recorder(), name="ship")
    await until(lambda: _is(store, event_id, Status.COMPLETED))


async def test_without_any_bus_everything_is_missing(make_bus, store) -> None:
    clock = ManualClock()
    bus = await make_bus(clock=clock).start()
    bus.subscribe("*", Recorder(failures=1), name="ship")
    bus.subscribe("*", Recorder(), name="audit")
    event_id = await bus.publish("a", 1, wait=False)
    await until(lambda: bus.counters["a"].retries)
    await bus.shutdown()
    clock.advance(1)
    await store.tend(now=clock.now())
    assert await store.missing_handlers(now=clock.now()) == [MissingHandlers("bus", ("ship", "audit"), 1, event_id)]


async def test_a_name_belongs_to_one_subscription(bus) -> None:
    subscription = bus.subscribe("a", Recorder(), name="ship")
    with pytest.raises(HandlerExistsError, match="'ship'"):
        bus.subscribe("b", Recorder(), name="ship")
    await bus.unsubscribe(subscription)
    bus.subscribe("b", Recorder(), name="ship")


@pytest.mark.parametrize("wrong", ["", "a" * 201, 5, "nul\x00"], ids=repr)
async def test_a_name_that_cannot_be_stored_is_refused(bus, wrong) -> None:
    with pytest.raises(SettingsError, match="not usable"):
        bus.subscribe("a", Recorder(), name=wrong)


async def test_a_choice_for_missing_handlers_that_does_not_exist_is_refused(make_bus) -> None:
    with pytest.raises(SettingsError, match="on_missing"):
        make_bus(on_missing="drop")


async def test_an_event_published_by_an_older_version_is_for_whoever_wants_its_type(make_bus, store) -> None:
    from eventhub.store.values import NewEvent, Route

    async with open_store(store.url) as other:
        await other.publish([NewEvent(type="a", payload="1", route=Route("bus"))])
    bus, handler = make_bus(), Recorder()
    bus.subscribe("*", handler, name="anything")
    await bus.start()
    await until(lambda: handler.events)


async def test_a_database_that_cannot_be_written_holds_up_no_start_and_the_bus_is_announced_later(
    make_bus, store, monkeypatch
) -> None:
    announce, full = store.announce_bus, True

    async def on_a_full_disk(*args: Any, **options: Any) -> None:
        if full:
            raise StoreFull("the disk has no room")
        await announce(*args, **options)

    monkeypatch.setattr(store, "announce_bus", on_a_full_disk)
    bus = make_bus()
    bus.subscribe("*", Recorder(), name="ship")
    with capture_logs() as logs:
        await bus.start()
        await until(lambda: [record["event"] for record in logs].count("announcement_failed") > 1)
        full = False
        await until(store.buses)
    assert [(each.queue, each.handlers, each.alive) for each in await store.buses()] == [("bus", ("ship",), True)]
