"""How long an event waits when nobody is busy: from its commit to the start of its handler, one event at a time.

The commit is taken to be when ``publish`` returns, so a handler that started even earlier counts as 0 ms. Both clocks
are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from eventhub.bench.figures import Sample, share
from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.raw import open_raw
from eventhub.bench.settings import TYPE, Engine
from eventhub.core.events import QueuedEvent
from eventhub.queue import EventManager, EventQueue

__all__ = ["from_other_process", "from_this_process", "raw_latencies"]

PATIENCE: Final = 30.0
REST: Final = (0.01, 0.02)
"""Seconds between two events: long enough that the manager sleeps again."""

Publish = Callable[[], Awaitable[tuple[float, float]]]
"""Publishes one event; returns when it began and when it was committed."""


async def from_this_process(url: str, count: int) -> Sample:
    """Publisher and manager share a process and a store."""
    async with EventQueue(url) as queue:

        async def publish() -> tuple[float, float]:
            began = monotonic()
            await queue.publish(TYPE, PAYLOAD)
            return began, monotonic()

        return await _measure(queue, publish, count)


async def from_other_process(url: str, count: int) -> Sample:
    """The publisher is a process of its own, with its own store on the same database."""
    async with EventQueue(url) as queue, _publisher(url) as publish:
        return await _measure(queue, publish, count)


async def _measure(queue: EventQueue, publish: Publish, count: int) -> Sample:
    loop = asyncio.get_running_loop()
    started: asyncio.Future[float] = loop.create_future()

    async def handler(_: QueuedEvent) -> None:
        started.set_result(monotonic())

    manager = EventManager(queue)
    manager.register("clock", TYPE, handler)
    after_commit, after_call = [], []
    async with manager:
        for number in range(count + 1):
            await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
            began, committed = await publish()
            at = await asyncio.wait_for(started, PATIENCE)
            started = loop.create_future()
            if number:  # the first one only warms up
                after_commit.append(max(0.0, at - committed) * 1000)
                after_call.append((at - began) * 1000)
    return _sample(after_commit, {"from the call, p50": share(sorted(after_call), 0.5)})


async def raw_latencies(engine: Engine, url: str, count: int, *, notified: bool) -> Sample:
    """The bare driver: a claim right after the commit, or after the NOTIFY that it carries."""
    found = []
    async with open_raw(engine, url) as driver:
        for _ in range(count):
            await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
            took = await driver.latency(notified=notified)
            if took is not None:
                found.append(took * 1000)
    return _sample(found, {})


def _sample(milliseconds: list[float], more: dict[str, float]) -> Sample:
    ordered = sorted(milliseconds)
    return Sample(share(ordered, 0.5), {"p99": share(ordered, 0.99), **more})


@asynccontextmanager
async def _publisher(url: str) -> AsyncIterator[Publish]:
    """A publisher process that is told by a line when to publish, and answers with two times."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "eventhub.bench.publisher", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    to_it, from_it = process.stdin, process.stdout

    async def ask(line: str) -> str:
        to_it.write(f"{line}\n".encode())
        answer = await asyncio.wait_for(from_it.readline(), PATIENCE)
        if not answer:
            raise RuntimeError("The publishing process ended early; its error is above.")
        return answer.decode()

    async def publish() -> tuple[float, float]:
        began, committed = (await ask("publish")).split()
        return float(began), float(committed)

    try:
        await ask(url)  # through the pipe: a password must not show among the arguments
        yield publish
    finally:
        to_it.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
