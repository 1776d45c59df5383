"""Time limits: a handler that takes too long has failed, and nothing it does later matters."""

import asyncio
import threading
import time
from typing import Any

import pytest

from eventhub.bus import Tuning
from tests.bus.support import NEVER_AGAIN, python, until


async def test_a_timeout_is_a_failure_in_the_seeds_words(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, timeout=0.02).start()

    @bus.on("*")
    async def slow(event: Any) -> None:
        await asyncio.sleep(3600)

    dead = await dlq.get(await bus.publish("a", 1))
    assert dead.errors == ["Handler timeout after 20ms"]


async def test_a_subscriptions_own_limit_goes_before_the_bus_limit(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, timeout=3600).start()
    bus.subscribe("a", lambda event: threading.Event().wait(0.5), timeout=0.015)
    assert (await dlq.get(await bus.publish("a", 1))).errors == ["Handler timeout after 15ms"]


async def test_the_default_limit_is_thirty_seconds(make_bus) -> None:
    bus = make_bus()
    bus.subscribe("*", print)
    (subscription,) = bus._parts.subscriptions.matching("a").subscriptions
    assert subscription.timeout == 30.0


async def test_a_timed_out_handler_is_retried_and_may_succeed(make_bus, status) -> None:
    bus = await make_bus(timeout=0.05).start()
    calls = 0

    @bus.on("*")
    async def slow_once(event: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(3600)

    assert await status(await bus.publish("a", 1)) == "COMPLETED"
    assert calls == 2


async def test_the_late_end_of_a_stubborn_handler_changes_nothing(make_bus, store, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, timeout=0.02).start()
    let_go, ended = asyncio.Event(), []

    @bus.on("*")
    async def stubborn(event: Any) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        ended.append(event.id)
        raise RuntimeError("too late")

    event_id = await bus.publish("a", 1)
    before = await store.log(event_id)
    let_go.set()
    await until(lambda: ended)
    await asyncio.sleep(0)
    assert await store.log(event_id) == before
    assert (await dlq.get(event_id)).errors == ["Handler timeout after 20ms"]


async def test_the_late_end_of_a_plain_handler_changes_nothing(make_bus, store, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, timeout=0.02).start()
    let_go, ended = threading.Event(), threading.Event()

    @bus.on("*")
    def stubborn(event: Any) -> None:
        let_go.wait(30)
        ended.set()

    event_id = await bus.publish("a", 1)
    let_go.set()
    await until(ended.is_set)
    assert (await store.event(event_id)).status == "FAILED"
    assert (await dlq.get(event_id)).errors == ["Handler timeout after 20ms"]


async def test_hung_plain_handlers_leave_threads_for_the_others(make_bus) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, tuning=Tuning(threads=2, poll_interval=0.01)).start()
    release, done = threading.Event(), []
    bus.subscribe("hangs", lambda event: release.wait(30), timeout=0.02)
    bus.subscribe("works", lambda event: done.append(event.payload))
    await asyncio.gather(*(bus.publish("hangs", number) for number in range(6)))
    await bus.publish("works", 1)
    release.set()
    assert done == [1]


HANGS = """
import asyncio, sys, threading, time
from eventhub.bus import EventBus
from eventhub.core.retry import RetryPolicy

async def main():
    async with EventBus(sys.argv[1], retry=RetryPolicy(max_retries=0), timeout=float(sys.argv[3])) as bus:
        if sys.argv[2] == "plain":
            bus.subscribe("*", lambda event: time.sleep(3600))
        else:
            async def hang(event): await asyncio.sleep(3600)
            bus.subscribe("*", hang)
        await bus.publish("a", 1)
        print((await bus.store.event(1)).status, flush=True)

asyncio.run(main())
"""

QUICK_HANDLER = """
import asyncio, sys
from eventhub.bus import EventBus

async def main():
    async with EventBus(sys.argv[1], timeout=3600) as bus:
        async def quick(event): pass
        bus.subscribe("*", quick)
        bus.subscribe("*", lambda event: None)
        await bus.publish("a", 1)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_hung_handler_does_not_keep_the_process_alive(sqlite_path, kind) -> None:
    process = python(HANGS, str(sqlite_path), kind, "0.05")
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert output.splitlines()[-1] == "FAILED"


def test_the_timer_of_a_quick_handler_does_not_keep_the_process_alive(sqlite_path) -> None:
    started = time.monotonic()
    process = python(QUICK_HANDLER, str(sqlite_path))
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert time.monotonic() - started < 20
