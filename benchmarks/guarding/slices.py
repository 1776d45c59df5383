"""What is measured in slices: a fraction of a second of Event Hub, then one of the bare driver, in the same database.

The disk is left out: databases are in memory and commits wait for nothing. So the ratio of the two shows what our own
code costs, and hardly what the machine is doing meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from eventhub.bench.payloads import PAYLOAD, batch
from eventhub.bench.raw import Raw
from eventhub.bench.settings import BATCH, CLAIM, PUBLISHERS, TYPE
from eventhub.bench.workloads import LANES, timed
from eventhub.queue import EventManager, EventQueue

__all__ = ["SLICES", "Place", "Slice"]

PUBLISHED: Final = 5 * BATCH
ONE_BY_ONE: Final = 60 * PUBLISHERS
DRAINED: Final = 4 * BATCH
KEYS: Final = 1000


class Place:
    """A database with both of them in it."""

    def __init__(self, engine: str, queue: EventQueue, raw: Raw) -> None:
        self.lanes = LANES[engine]
        self.queue, self.raw = queue, raw

    async def publish(self, events: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(events), BATCH):
            await self.queue.publish_many(events[start : start + BATCH])

    async def fill(self) -> None:
        """Something to drain, by the quickest way."""
        await self.raw.publish(DRAINED, batch=BATCH, connections=1)


Slice = tuple[Callable[[Place], Awaitable[float]], Callable[[Place], Awaitable[float]]]
"""Events a second: ours, and the bare driver's."""


async def _publish_batch(place: Place) -> float:
    return PUBLISHED / await timed(place.publish(batch(PUBLISHED)))


async def _raw_publish_batch(place: Place) -> float:
    return PUBLISHED / await place.raw.publish(PUBLISHED, batch=BATCH, connections=1)


async def _publish_16(place: Place) -> float:
    numbers = iter(range(ONE_BY_ONE))

    async def publisher() -> None:
        for _ in numbers:
            await place.queue.publish(TYPE, PAYLOAD)

    return ONE_BY_ONE / await timed(asyncio.gather(*(publisher() for _ in range(PUBLISHERS))))


async def _raw_publish_16(place: Place) -> float:
    together = PUBLISHERS // place.lanes
    return ONE_BY_ONE / await place.raw.publish(ONE_BY_ONE, batch=together, connections=place.lanes)


async def _drain(place: Place) -> float:
    await place.fill()
    return await _drained(place)


async def _ordered(place: Place) -> float:
    await place.publish([{**one, "ordering_key": f"key-{number % KEYS}"} for number, one in enumerate(batch(DRAINED))])
    return await _drained(place)


async def _drained(place: Place) -> float:
    manager = EventManager(place.queue)
    manager.register("nothing", TYPE, _do_nothing)
    seconds = await timed(manager.run_until_empty())
    return _rate(manager.numbers.completed, seconds)


async def _raw_drain(place: Place) -> float:
    await place.fill()
    return _rate(*await place.raw.drain(DRAINED, batch=CLAIM))


def _rate(done: int, seconds: float) -> float:
    if done < DRAINED:  # the driver publishes one more to warm up, which may be left to the next
        raise RuntimeError(f"{done:,} events were completed instead of {DRAINED:,}.")
    return done / seconds


async def _do_nothing(_: object) -> None:
    """Handle an event."""


SLICES: Final[dict[str, Slice]] = {
    "drain": (_drain, _raw_drain),
    "ordered": (_ordered, _raw_drain),
    "publish-batch": (_publish_batch, _raw_publish_batch),
    "publish-16": (_publish_16, _raw_publish_16),
}
"""Draining comes first: what publishing leaves behind would be drained, too."""
