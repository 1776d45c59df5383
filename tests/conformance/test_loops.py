"""A store, queue or bus belongs to the event loop and process that opened it; everywhere else it says so at once."""

import subprocess
import sys
import textwrap

import pytest

# What each program has in common: `told` prints how a call ended, and whatever hangs is ended by its alarm.
COMMON = """
import asyncio, multiprocessing, os, signal, sys, threading, warnings
from eventhub import EventBus, EventQueue, blocking
from eventhub.store import open_store

warnings.simplefilter("ignore", ResourceWarning)  # sockets of a loop that nobody closed are the program's own fault
signal.alarm(120)
url = sys.argv[1]
EVENT = {"type": "a.b", "payload": {"n": 1}}

def told(call, *args):
    try:
        value = call(*args)
    except BaseException as error:
        value = f"{type(error).__name__}: {error}"
    print("an id" if isinstance(value, int) else value, flush=True)

def in_thread(call, *args):
    thread = threading.Thread(target=told, args=(call, *args))
    thread.start()
    thread.join()

def in_child(call, *args):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        in_thread(call, *args)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
CLOSED = "RuntimeError: The store … was opened in an event loop that is closed by now"
OTHER = "RuntimeError: The store … was opened in another event loop"
FORKED = "RuntimeError: The store … was opened by process … from which this one was forked"

PROGRAMS = {
    "a closed loop, queue": (
        """
        queue = EventQueue(url)
        async def publish():
            return (await queue.publish(EVENT)).id
        told(lambda: asyncio.run(publish()))
        told(lambda: asyncio.run(publish()))
        told(lambda: asyncio.run(queue.close()))
        told(lambda: asyncio.run(queue.poll()))
        """,
        ["an id", CLOSED, "None", "StoreClosed"],
    ),
    "a closed loop, bus": (
        """
        bus = EventBus(url)
        async def handle(event):
            pass
        async def publish():
            bus.subscribe("*", handle)
            return await bus.publish("a.b", 1)
        async def again():
            return await bus.publish("a.b", 2)
        told(lambda: asyncio.run(publish()))
        told(lambda: asyncio.run(again()))
        told(lambda: asyncio.run(bus.shutdown()))
        told(lambda: asyncio.run(bus.destroy()))
        told(lambda: asyncio.run(again()))
        """,
        ["an id", CLOSED, "None", "None", "EventBusShutdownError"],
    ),
    "an opening that failed may be tried in another loop": (
        """
        broken = open_store("/nowhere/at/all.db")
        for _ in range(2):
            told(lambda: asyncio.run(broken.open()))
        """,
        ["StoreUnavailable", "StoreUnavailable"],
    ),
    "two loops at once": (
        """
        async def main():
            queue, bus = EventQueue(url), EventBus(url)
            await queue.publish(EVENT)
            await bus.start()
            calls = [queue.poll, queue.close, lambda: queue.publish(EVENT), lambda: bus.publish("a.b", 1)]
            for call in calls:
                await asyncio.to_thread(in_thread, lambda call=call: asyncio.run(call()))
            print((await queue.poll()).payload)
            await bus.shutdown()
            await queue.close()
        asyncio.run(main())
        """,
        [OTHER, OTHER, OTHER, OTHER, "{'n': 1}"],
    ),
    "a fork": (
        """
        async def main():
            queue, bus = EventQueue(url), EventBus(url)
            await queue.publish(EVENT)
            await bus.start()
            for call in (queue.poll, lambda: queue.publish(EVENT), lambda: bus.publish("a.b", 1)):
                in_child(lambda: asyncio.run(call()))
            in_child(lambda: (asyncio.run(bus.shutdown()), asyncio.run(queue.close())))
            first, last = (await queue.publish(EVENT)).id, (await queue.poll()).id
            print(first - last)
            await bus.shutdown()
            await queue.close()
        asyncio.run(main())
        """,
        [FORKED, FORKED, FORKED, "(None, None)", "1"],
    ),
    "a blocking queue after a fork": (
        """
        queue = blocking.EventQueue(url)
        told(lambda: queue.publish(EVENT).id)
        in_child(lambda: queue.publish(EVENT).id)
        process = multiprocessing.get_context("fork").Process(target=told, args=(lambda: queue.publish(EVENT).id,))
        process.start()
        process.join()
        in_child(lambda: queue.close())
        print(process.exitcode, len(queue.poll_many(10)))
        queue.close()
        """,
        ["an id", "an id", "an id", "None", "0 3"],
    ),
    "a blocking bus after a fork": (
        """
        bus = blocking.EventBus(url)
        bus.subscribe("*", print)
        bus.start()
        in_child(lambda: bus.publish("a.b", 1, wait=False))
        bus.shutdown()
        """,
        ["RuntimeError: This EventBus was made before the process forked"],
    ),
    "a blocking queue of many threads": (
        """
        queue = blocking.EventQueue(url)
        threads = [threading.Thread(target=lambda: [queue.publish(EVENT) for _ in range(10)]) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(queue.poll_many(100)))
        queue.close()
        """,
        ["40"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_works_or_says_why_not(store_url: str, name: str) -> None:
    program, expected = PROGRAMS[name]
    ran = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(program), store_url],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(expected), ran.stdout + ran.stderr
    for line, wanted in zip(lines, expected, strict=True):
        parts = wanted.split("…")
        assert line.startswith(parts[0]), ran.stdout
        assert all(part in line for part in parts), ran.stdout
