"""Part 6: many events in and out again, with everything on: commit, fence, lease and log."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from eventhub.core.events import QueuedEvent
from eventhub.queue import EventManager, EventQueue

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

QUEUE: Final = "speed"
BATCH: Final = 1000


async def play(stage: Stage, *, events: int) -> None:
    stage.narrator.chapter("6. Speed", f"{events:,} events in, in batches of {BATCH:,}, and out through a handler.")
    async with EventQueue(stage.store, queue=QUEUE) as queue:
        began = time.perf_counter()
        with stage.narrator.progress("publishing", events) as done:
            for start in range(0, events, BATCH):
                numbers = range(start, min(start + BATCH, events))
                ids = await queue.publish_many({"type": "tick", "payload": {"n": n}} for n in numbers)
                stage.book(QUEUE, ids)
                done(start + len(ids))
        stage.publish_rate = events / (time.perf_counter() - began)
        stage.narrator.good(f"published {events:,} events: {stage.publish_rate:,.0f} events/s, each committed")
        await _drain(stage, queue, events)


async def _drain(stage: Stage, queue: EventQueue, events: int) -> None:
    manager = EventManager(queue)
    seen: set[int] = set()

    async def tick(event: QueuedEvent) -> None:
        seen.add(event.id)

    manager.register("tick", "tick", tick)
    began = time.perf_counter()
    with stage.narrator.progress("handling", events) as done:
        running = asyncio.create_task(manager.run_until_empty())
        while not running.done():
            done(len(seen))
            await asyncio.wait({running}, timeout=0.1)
        await running
    stage.drain_rate = events / (time.perf_counter() - began)
    stage.handled |= seen
    stage.narrator.good(f"handled {len(seen):,} events: {stage.drain_rate:,.0f} events/s")
