"""Handlers that hang: after their time limit the attempt has failed, and no lease is extended for them any more."""

import asyncio
import threading
from datetime import timedelta

import pytest
import structlog

from eventhub.core.events import Action, Status
from eventhub.errors import SettingsError
from eventhub.queue import EventManager, EventQueue
from eventhub.store import Store
from tests.queue.support import until

SHORT = 0.05


@pytest.fixture
async def once(store: Store) -> EventQueue:
    """A queue whose events get one attempt."""
    return EventQueue(store, max_attempts=1)


async def test_an_async_handler_that_hangs_is_cancelled_and_its_attempt_has_failed(once: EventQueue) -> None:
    manager = EventManager(once)
    ended: list[str] = []

    async def hang(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hung")

    manager.register("hung", "a", hang, timeout=SHORT)
    manager.register("well", "a", lambda _: ended.append("well"))
    event = await once.publish("a", 1)
    await manager.run_until_empty()
    found = await once.store.event(event.id)
    assert found is not None
    assert (found.status, found.errors) == (Status.FAILED, ("hung: Handler timeout after 50ms",))
    assert ended == ["hung", "well"], "the others run all the same"


async def test_the_thread_of_a_plain_handler_that_hangs_is_left_behind(once: EventQueue) -> None:
    manager, told = EventManager(once, concurrency=1), threading.Event()

    def hang(_: object) -> None:
        told.wait(60)

    manager.register("hung", "a", hang, timeout=timedelta(seconds=SHORT))
    manager.register("next", "b", lambda _: None)
    first, second = await once.publish("a", 1), await once.publish("b", 2)
    try:
        await manager.run_until_empty()
        statuses = [found.status for each in (first, second) if (found := await once.store.event(each.id))]
        assert statuses == [Status.FAILED, Status.COMPLETED]
    finally:
        told.set()


async def test_what_ends_in_time_is_not_disturbed_and_its_runner_goes_on(once: EventQueue) -> None:
    """Calls are short and long in turn, by one runner whose timer runs all the time."""
    manager = EventManager(once, concurrency=1)

    async def work(event: object) -> None:
        await asyncio.sleep(0.15 if event.payload % 3 == 2 else 0.01)  # type: ignore[attr-defined]

    manager.register("work", "a", work, timeout=0.1)
    for number in range(9):
        await once.publish("a", number)
    await manager.run_until_empty()
    assert (manager.numbers.completed, manager.numbers.failed) == (6, 3)


async def test_others_get_the_event_of_a_handler_that_cannot_be_cancelled(store: Store) -> None:
    queue = EventQueue(store, abandoned_after=1.0)
    manager, told, tries = EventManager(queue), asyncio.Event(), 0

    async def stubborn(_: object) -> None:
        nonlocal tries
        tries += 1
        while not told.is_set():
            try:
                await told.wait()
            except asyncio.CancelledError:
                continue

    manager.register("stubborn", "a", stubborn, timeout=SHORT)
    event = await queue.publish("a", 1)
    async with manager:

        async def abandoned() -> bool:
            return any(entry.action is Action.ABANDONED for entry in await store.log(event.id))

        await until(abandoned, seconds=30)
        told.set()
    assert tries >= 1


@pytest.mark.parametrize("timeout", [0, -1, timedelta(0), "1", True])
def test_a_time_limit_that_is_none_is_refused(once: EventQueue, timeout: object) -> None:
    with pytest.raises(SettingsError, match="'h' has the timeout"):
        EventManager(once).register("h", "a", lambda _: None, timeout=timeout)  # type: ignore[arg-type]


def test_there_is_a_limit_unless_none_is_asked_for(once: EventQueue) -> None:
    manager = EventManager(once)
    manager.register("usual", "a", lambda _: None)
    manager.on("b", handler_id="endless", timeout=None)(lambda _: None)
    (usual,), (endless,) = manager._handlers.matching("a"), manager._handlers.matching("b")
    assert (usual.limit.seconds, endless.limit.seconds) == (900, float("inf"))


async def test_who_is_told_to_stop_says_which_handlers_he_waits_for(once: EventQueue) -> None:
    manager, begun, told = EventManager(once), asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> None:
        begun.set()
        await told.wait()

    manager.register("slow", "a", slow, timeout=None)
    event = await once.publish("a", 1)
    with structlog.testing.capture_logs() as records:
        running = asyncio.create_task(manager.run())
        await asyncio.wait_for(begun.wait(), 30)
        running.cancel()  # as Ctrl-C does
        await until(lambda: any(record["event"] == "waiting for handlers" for record in records), seconds=30)
        (record,) = [record for record in records if record["event"] == "waiting for handlers"]
        assert record["running"][0].startswith(f"slow with event {event.id} (a) for ")
        assert 0 < record["seconds_left"] <= 30
        assert "second Ctrl-C" in record["hint"]
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 30)
    found = await once.store.event(event.id)
    assert found is not None
    assert (found.status, found.attempts) == (Status.PENDING, 0), "given back, uncharged"
