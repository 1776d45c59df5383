"""When things went wrong: looking at dead letters, and taking back what a dead process held."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from eventhub.bench.figures import Sample, share
from eventhub.bench.payloads import batch
from eventhub.bench.raw import open_raw
from eventhub.bench.settings import BATCH, TYPE, Engine
from eventhub.bus import DLQInspector, EventBus
from eventhub.core.events import Event
from eventhub.queue import EventQueue
from eventhub.store import open_store

__all__ = ["dead_pages", "make_dead", "raw_dead_pages", "recover"]

PAGE: Final = 100
PAGES: Final = 100
PATIENCE: Final = 30.0


async def make_dead(url: str, count: int) -> None:
    """Events that were given up, so many."""
    async with EventQueue(url) as queue:
        while count > 0:
            await queue.publish_many(batch(min(count, BATCH)))
            taken = await queue.poll_many(BATCH)
            await queue.finalize_many(taken, success=False)
            count -= len(taken)


async def dead_pages(url: str, dead: int) -> Sample:
    """Pages from all over the dead letter queue, each with the total."""
    found = []
    async with DLQInspector(url) as inspector:
        await inspector.list(limit=PAGE)
        for offset in _offsets(dead):
            started = perf_counter()
            await inspector.list(offset=offset, limit=PAGE)
            found.append((perf_counter() - started) * 1000)
    return _sample(found)


async def raw_dead_pages(engine: Engine, url: str, dead: int) -> Sample:
    async with open_raw(engine, url) as driver:
        await driver.dead_page(PAGE, 0)
        return _sample([await driver.dead_page(PAGE, offset) * 1000 for offset in _offsets(dead)])


def _offsets(dead: int) -> list[int]:
    return [page * max(dead - PAGE, 0) // PAGES for page in range(PAGES)]


def _sample(milliseconds: list[float]) -> Sample:
    ordered = sorted(milliseconds)
    return Sample(share(ordered, 0.5), {"p99": share(ordered, 0.99)})


async def recover(url: str, count: int) -> Sample:
    """Start a bus on a store in which a worker died with so many events in its hands."""
    async with open_store(url) as store:
        queue = EventQueue(store)
        await queue.publish_many(batch(count))
        await queue.poll_many(count)
        await queue.close()  # the worker is gone, its claims stay
        handled, all_handled = 0, asyncio.Event()

        async def handler(_: Event) -> None:
            nonlocal handled
            handled += 1
            if handled == count:
                all_handled.set()

        bus = EventBus(store, name=queue.name)
        bus.subscribe(TYPE, handler)
        started = perf_counter()
        await bus.start()
        took = perf_counter() - started
        await asyncio.wait_for(all_handled.wait(), PATIENCE)
        again = perf_counter() - started
        await bus.shutdown()
    return Sample(took * 1000, {"until handled again": again * 1000})
