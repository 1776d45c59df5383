"""A system under test: the few calls that each peer has of its own, and what follows from them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar, Final

__all__ = [
    "Drained",
    "Handled",
    "Latencies",
    "Peer",
    "Tally",
    "Unsupported",
    "in_thread",
    "post",
    "spread_over",
    "timed",
]

GLANCE: Final = 0.005
"""Seconds between two looks at how far a worker is; when it was done is noted by the handler itself."""
SETTLING: Final = 20.0
"""Seconds after the last handler until which the tables should say that nothing is left."""

REST: Final = (0.01, 0.02)
"""Seconds between two events of a latency measurement: long enough that the worker sleeps again."""
PATIENCE: Final = 60.0

Handled = Callable[[Any], None]
"""What a handler calls for each event, with the payload if it has it at hand."""


class Unsupported(Exception):
    """The peer has no such thing."""


@dataclass(frozen=True)
class Drained:
    """So many events in so many seconds; ``handled`` are also those that a worker finished while it stopped."""

    count: int
    seconds: float
    handled: int
    first: float = 0.0
    """Seconds until the first handler ran: what starting a worker takes."""
    settled: float | None = None
    """Seconds until the tables said that nothing is left, where that was asked for."""


@dataclass(frozen=True)
class Latencies:
    """Milliseconds until the handler started, event by event."""

    after_return: list[float]
    """Since the call of publish returned, which is after the commit; 0 when the handler was sooner."""
    after_call: list[float]
    """Since that call was made."""

    @classmethod
    def of(cls, times: Sequence[tuple[float, float, float]]) -> Latencies:
        """From when each was called, returned and handled. The first one only warms up."""
        known = times[1:]
        return cls(
            [max(0.0, at - returned) * 1000 for _, returned, at in known],
            [(at - called) * 1000 for called, _, at in known],
        )


class Peer(ABC):
    """One system under test."""

    packages: ClassVar[Sequence[str]]
    """What its version is told by."""
    settings: str = "defaults"
    """How it is set up, in a few words for the report."""

    url: str
    payload: dict[str, Any]
    notify: bool = False
    """Whether a worker that sleeps is to be woken at once, for those who have to choose: it makes publishing dearer."""

    @abstractmethod
    async def prepare(self) -> None:
        """Make the tables, if they are not there yet, and open what publishing needs."""

    async def close(self) -> None:  # noqa: B027 - not every peer holds something
        """Let go of connections."""

    async def ready(self) -> None:  # noqa: B027 - most reuse what publishing has opened
        """Connect what the next worker works with; the clock starts afterwards."""

    @abstractmethod
    async def publish_one(self, payload: dict[str, Any]) -> None:
        """Publish one event; returns after its commit."""

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:  # noqa: ARG002 - for those who can
        """Publish many in one commit."""
        raise Unsupported("it has no call for many at once")

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:  # noqa: ARG002 - for those who can
        """Publish events whose payload has a ``key`` and a ``number``; a key's must be handled in their order."""
        raise Unsupported("it has no order by key")

    @abstractmethod
    def worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:
        """Handle events for the length of a block."""

    def ordered_worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:
        return self.worker(handled)

    @abstractmethod
    async def waiting(self) -> int:
        """How many events are not done yet, as the tables of the peer say."""

    # What follows is the same for most; systems that publish in another way have their own.

    async def publish(self, count: int, at_once: int) -> float:
        numbers = iter(range(count))

        async def publisher() -> None:
            for _ in numbers:
                await self.publish_one(self.payload)

        await asyncio.gather(*(self.publish_one(self.payload) for _ in range(at_once)))
        return await timed(lambda: asyncio.gather(*(publisher() for _ in range(at_once))))

    async def batches(self, count: int, size: int) -> float:
        batch = [self.payload] * size
        await self.publish_batch(batch[:1])

        async def publish() -> None:
            for length in spread_over(count, size):
                await self.publish_batch(batch[:length])

        return await timed(publish)

    async def latencies(self, count: int) -> Latencies:
        """From publishing to the handler, one event at a time; publisher and worker share a process."""
        loop = asyncio.get_running_loop()
        at: asyncio.Queue[float] = asyncio.Queue()
        found = []
        await self.ready()
        async with self.worker(lambda _: post(loop, at, monotonic())):
            for _ in range(count + 1):
                await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
                called = monotonic()
                await self.publish_one(self.payload)
                returned = monotonic()
                found.append((called, returned, await asyncio.wait_for(at.get(), PATIENCE)))
        return Latencies.of(found)

    async def fill(self, count: int) -> None:
        """Publish events to be drained; nobody looks at the time."""
        try:
            for size in spread_over(count, 1000):
                await self.publish_batch([self.payload] * size)
        except Unsupported:
            for _ in range(count):
                await self.publish_one(self.payload)

    async def drain(self, count: int, seconds: float, *, settle: bool = False) -> Drained:
        """Let a worker handle so many; with ``settle``, also note when the tables say that nothing is left."""
        return await self._drain(self.worker, Tally(count), seconds, settle=settle)

    async def ordered(self, count: int, keys: int, seconds: float) -> Drained:
        events = [{**self.payload, "key": f"key-{n % keys}", "number": n} for n in range(count)]
        for begin in range(0, count, 1000):
            await self.publish_ordered(events[begin : begin + 1000])
        tally = OrderedTally(count)
        drained = await self._drain(self.ordered_worker, tally, seconds, settle=True)
        if tally.out_of_order:
            raise RuntimeError(f"{tally.out_of_order} of {tally.count} events came before an older one of their key")
        return drained

    async def _drain(self, worker: Worker, tally: Tally, seconds: float, *, settle: bool) -> Drained:
        await self.ready()
        gc.collect()
        started = monotonic()
        async with worker(tally):
            while not tally.full and monotonic() - started < seconds:  # noqa: ASYNC110 - handlers may be in threads
                await asyncio.sleep(GLANCE)
            ended = tally.ended or monotonic()
            done = min(tally.count, tally.wanted)
            settled = await self._settled() if settle and tally.full else None
        settling = None if settled is None else max(settled, ended) - started
        return Drained(done, ended - started, tally.count, max(tally.began - started, 0.0), settling)

    async def _settled(self) -> float | None:
        """When the tables said that nothing is left: the moment at which the question was sent that found it so."""
        until = monotonic() + SETTLING
        while (asked := monotonic()) < until:
            if await self.waiting() == 0:
                return asked
            await asyncio.sleep(GLANCE)
        return None


Worker = Callable[[Handled], AbstractAsyncContextManager[None]]


class Tally:
    """Counts handled events, from any thread, and notes when the last one was."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.began = 0.0
        self.ended = 0.0
        self._numbers = itertools.count(1)

    @property
    def full(self) -> bool:
        return self.count >= self.wanted

    def __call__(self, _: Any) -> None:
        self.count = number = next(self._numbers)
        if number == 1:
            self.began = monotonic()
        if number == self.wanted:
            self.ended = monotonic()


class OrderedTally(Tally):
    """Also looks whether the events of a key come in their order."""

    def __init__(self, wanted: int) -> None:
        super().__init__(wanted)
        self.out_of_order = 0
        self._last: dict[str, int] = {}

    def __call__(self, event: Any) -> None:
        key, number = event["key"], event["number"]
        if self._last.get(key, -1) >= number:
            self.out_of_order += 1
        self._last[key] = number
        super().__call__(event)


def post(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[float], at: float) -> None:
    """Handlers may be in another thread."""
    loop.call_soon_threadsafe(queue.put_nowait, at)


def spread_over(count: int, size: int) -> list[int]:
    """The sizes of batches that make up ``count``."""
    return [size] * (count // size) + [count % size] * (count % size > 0)


async def timed(work: Callable[[], Any]) -> float:
    gc.collect()
    started = monotonic()
    await work()
    return monotonic() - started


def in_thread(work: Callable[[Callable[[], bool]], None]) -> AbstractAsyncContextManager[None]:
    """Run a blocking worker in a thread for the length of a block; it is given a question: go on?"""

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        stop = threading.Event()
        task = asyncio.create_task(asyncio.to_thread(work, lambda: not stop.is_set()))
        try:
            yield
        finally:
            stop.set()
            await task

    return running()
