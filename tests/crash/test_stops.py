"""Processes that stall, abort, die in the middle of a handler or are asked to stop, one fault at a time."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import apsw
import pytest

from eventhub.core.events import QueuedEvent, Status
from eventhub.errors import ClaimLost
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store
from eventhub.testing.torture.children import Child, Nursery, until
from eventhub.testing.torture.history import Record

pytestmark = [pytest.mark.alone]

SOON = 30.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def queue(store: Store) -> EventQueue:
    return EventQueue(store, queue="crash", abandoned_after=60.0, max_attempts=3)


def handled(nursery: Nursery, process: str = "*", *, kind: str = "invoke") -> list[Record]:
    return [r for r in nursery.records(process) if r.op == "handle" and r.kind == kind]


async def handling(nursery: Nursery, process: str = "*", *, times: int = 1) -> None:
    await until(lambda: len(handled(nursery, process)) >= times, SOON, f"handling {times} of {process}")


async def settled(store: Store, event_id: int, *, seconds: float = SOON) -> QueuedEvent:
    end = time.monotonic() + seconds
    while True:
        event = await store.event(event_id)
        assert event is not None
        if event.status not in (Status.PENDING, Status.PROCESSING):
            return event
        assert time.monotonic() < end, f"event {event_id} is still {event.status} after {seconds} s"
        await asyncio.sleep(0.01)


async def actions(store: Store, event_id: int) -> list[tuple[str, int | None, int | None]]:
    return [(str(entry.action), entry.attempt, entry.fence) for entry in await store.log(event_id)]


async def stall(child: Child, store: Store) -> None:
    """SIGSTOP, but not while the process holds SQLite's write lock: then nobody could go on, which is another fault."""
    while True:
        child.send(signal.SIGSTOP)
        if store.engine != "sqlite":
            return
        probe = apsw.Connection(store.url)
        probe.set_busy_timeout(0)
        try:
            probe.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            child.send(signal.SIGCONT)
            await asyncio.sleep(0.005)
        else:
            return
        finally:
            probe.close()


# --------------------------------------------------------------------- stalls


@pytest.mark.parametrize("style", ["manager", "bare"])
async def test_a_worker_that_stalled_past_its_lease_changes_nothing(
    store_url: str, store: Store, queue: EventQueue, nursery: Nursery, style: str
) -> None:
    event = await queue.publish("crash.test", {"token": "stalled"})
    child = nursery.spawn("worker", "worker-a", url=store_url, seed=1, style=style, lease=2.0, hold=0.5)
    await handling(nursery, "worker-a*")
    await stall(child, store)
    assert not handled(nursery, "worker-a*", kind="ok"), "the stall came too late"

    taken = await take(queue)
    assert (taken.id, taken.attempts, taken.fence) == (event.id, 2, 2)
    before = await store.event(event.id), await actions(store, event.id)

    child.send(signal.SIGCONT)
    late = await until(lambda: reports(nursery, fence=1), SOON, "the late report")
    assert [report.accepted for report in late] == [False]
    assert (await store.event(event.id), await actions(store, event.id)) == before

    await queue.finalize(taken)
    assert await actions(store, event.id) == [
        ("PUBLISHED", None, None),
        ("PICKED", 1, 1),
        ("ABANDONED", 1, 1),
        ("PICKED", 2, 2),
        ("COMPLETED", 2, 2),
    ]
    child.send(signal.SIGTERM)
    await child.ended()
    assert nursery.errors() == ""


async def take(queue: EventQueue) -> QueuedEvent:
    end = time.monotonic() + SOON
    while (taken := await queue.poll()) is None:
        assert time.monotonic() < end, "the event was not given to anybody else"
        await asyncio.sleep(0.02)
    return taken


def reports(nursery: Nursery, *, fence: int) -> list[Record]:
    """Answered reports under this fence; a manager may notice by itself that its claim is lost and send none."""
    answered = [r for r in nursery.records() if (r.op, r.kind) == ("report", "ok") and r.fence == fence]
    refused = [r for r in nursery.records() if (r.op, r.kind) == ("extend", "ok") and r.fence == fence]
    return answered or [r for r in refused if r.accepted is False]


async def test_a_late_report_through_the_queue_says_that_the_claim_is_lost(
    store_url: str, store: Store, queue: EventQueue
) -> None:
    async with EventQueue(store_url, queue="crash", abandoned_after=0.2) as slow:
        event = await queue.publish("crash.test", {"token": "late"})
        mine = await slow.poll()
        assert mine is not None
        taken = await take(queue)
        before = await actions(store, event.id)
        for report in (slow.finalize(mine), slow.fail(mine, "boom"), slow.extend(mine), slow.release(mine)):
            with pytest.raises(ClaimLost):
                await report
        assert await actions(store, event.id) == before
        await queue.finalize(taken)
        assert (await settled(store, event.id)).status is Status.COMPLETED


# --------------------------------------------------------------------- poison


@pytest.mark.parametrize("style", ["manager", "bare"])
async def test_an_event_that_kills_its_workers_ends_in_the_dead_letter_queue(
    store_url: str, store: Store, queue: EventQueue, nursery: Nursery, style: str
) -> None:
    poison = await queue.publish("crash.test", {"token": "poison", "abort": True}, ordering_key="key")
    behind = await queue.publish("crash.test", {"token": "behind"}, ordering_key="key")
    deaths = 0
    child = nursery.spawn("worker", "worker-a", url=store_url, seed=1, style=style, lease=0.5, hold=0)
    end = time.monotonic() + SOON
    while (await store.event(behind.id) or behind).status is not Status.COMPLETED:
        assert time.monotonic() < end, f"{deaths} deaths, and the key is not free"
        if not child.alive:
            deaths += 1
            child = nursery.spawn("worker", "worker-a", url=store_url, seed=1, style=style, lease=0.5, hold=0)
        await asyncio.sleep(0.01)
    letter = await store.dead_event(poison.id)
    assert letter is not None
    assert (letter.reason, letter.attempts, len(letter.errors), letter.payload["token"]) == (
        "worker_lost",
        3,
        3,
        "poison",
    )
    assert deaths == 3
    assert [(r.token, r.attempt) for r in handled(nursery)] == [
        ("poison", 1),
        ("poison", 2),
        ("poison", 3),
        ("behind", 1),
    ]
    assert [action for action, _, _ in await actions(store, poison.id)] == [
        "PUBLISHED",
        *["PICKED", "ABANDONED"] * 3,
        "DEAD",
    ]
    child.send(signal.SIGTERM)
    await child.ended()


# -------------------------------------------------------------------- the bus


async def test_a_killed_bus_is_recovered_at_once_by_the_next(store_url: str, store: Store, nursery: Nursery) -> None:
    """Its lease is a minute: only the knowledge that the process is dead can be as quick as this."""
    first = nursery.spawn("bus_process", "bus", url=store_url, publish="unlucky", hold=60.0)
    await handling(nursery, "bus.1")
    published = await until(lambda: acknowledged(nursery), SOON, "the acknowledgement")
    first.kill()
    await first.ended()
    assert [action for action, _, _ in await actions(store, published)] == ["PUBLISHED", "PICKED"]

    second = nursery.spawn("bus_process", "bus", url=store_url)
    event = await settled(store, published, seconds=15.0)
    await second.ended()
    assert (event.status, event.attempts) == (Status.COMPLETED, 2)
    assert await actions(store, published) == [
        ("PUBLISHED", None, None),
        ("PICKED", 1, 1),
        ("ABANDONED", 1, 1),
        ("PICKED", 2, 2),
        ("COMPLETED", 2, 2),
    ]
    records = nursery.records("bus.2")
    started = next(r.time for r in records if r.op == "starting")
    again = next(r.time for r in records if r.op == "handle")
    assert again - started < 10.0
    assert nursery.errors() == ""


async def test_a_living_bus_keeps_its_events_when_another_starts(
    store_url: str, store: Store, nursery: Nursery
) -> None:
    nursery.spawn("bus_process", "first", url=store_url, publish="kept", hold=2.0)
    await handling(nursery, "first.1")
    published = await until(lambda: acknowledged(nursery), SOON, "the acknowledgement")
    second = nursery.spawn("bus_process", "second", url=store_url)
    event = await settled(store, published)
    assert (event.status, event.attempts) == (Status.COMPLETED, 1)
    assert handled(nursery, "second.1") == []
    second.kill()


def acknowledged(nursery: Nursery) -> int | None:
    return next((r.id for r in nursery.records() if (r.op, r.kind) == ("publish", "ok")), None)


# -------------------------------------------------------------------- SIGTERM


async def _publish_ten(queue: EventQueue) -> list[int]:
    return await queue.publish_many([{"type": "crash.test", "payload": {"token": f"t-{n}"}} for n in range(10)])


async def test_sigterm_lets_handlers_finish_and_gives_the_rest_back_uncharged(
    store_url: str, store: Store, queue: EventQueue, nursery: Nursery
) -> None:
    ids = await _publish_ten(queue)
    child = nursery.spawn("worker", "worker-a", url=store_url, seed=1, style="manager", concurrency=2, hold=1.0)
    await handling(nursery, times=2)
    child.send(signal.SIGTERM)
    await child.ended()
    begun = {record.id for record in handled(nursery)}
    assert len(begun) == 2, "it went on claiming"
    for number in ids:
        event = await store.event(number)
        assert event is not None
        expected = (Status.COMPLETED, 1) if number in begun else (Status.PENDING, 0)
        assert (event.status, event.attempts) == expected
    assert [r.op for r in nursery.records("worker-a*")][-1] == "end"


@pytest.mark.parametrize("patience", ["the time is up", "told a second time"])
async def test_sigterm_gives_back_handlers_that_take_too_long(
    store_url: str, store: Store, queue: EventQueue, nursery: Nursery, patience: str
) -> None:
    timeout = 0.3 if patience == "the time is up" else 60.0
    settings = {"style": "manager", "concurrency": 2, "lease": 60.0, "hold": 300.0, "shutdown_timeout": timeout}
    ids = await _publish_ten(queue)
    child = nursery.spawn("worker", "worker-a", url=store_url, seed=1, **settings)
    await handling(nursery, times=2)
    child.send(signal.SIGTERM)
    if timeout > 1:
        await asyncio.sleep(0.3)
        assert child.alive
        child.send(signal.SIGTERM)
    await child.ended(10.0)
    begun = {record.id for record in handled(nursery)}
    assert len(begun) == 2
    for number in ids:
        event = await store.event(number)
        assert event is not None
        assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 0, 0)
        given_back = await actions(store, number)
        assert given_back[-1] == (("RELEASED", 0, 1) if number in begun else ("PUBLISHED", None, None))
    assert nursery.errors() == ""

    await queue.poll_many(10)
    assert {(await _event(store, number)).attempts for number in ids} == {1}


async def _event(store: Store, number: int) -> QueuedEvent:
    event = await store.event(number)
    assert event is not None
    return event
