"""What is measured in slices: a fraction of a second of Event Hub, then one of the bare driver, in the same database.

The disk is left out: databases are in memory and commits wait for nothing. So the ratio of the two shows what our own
code costs, and hardly what the machine is doing meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.guarding.meter import Meter, Taken
from eventhub.bench.payloads import PAYLOAD, batch
from eventhub.bench.raw import Raw
from eventhub.bench.settings import BATCH, CLAIM, PUBLISHERS, TYPE, Engine
from eventhub.bench.workloads import LANES
from eventhub.queue import EventManager, EventQueue

__all__ = ["SLICES", "Place", "Slice"]

PUBLISHED: Final = {"sqlite": 15 * BATCH, "postgres": 5 * BATCH}
ONE_BY_ONE: Final = {"sqlite": 120 * PUBLISHERS, "postgres": 60 * PUBLISHERS}
DRAINED: Final = {"sqlite": 8 * BATCH, "postgres": 4 * BATCH}
KEYS: Final = 1000


class Place:
    """A database with both of them in it, and what measures them."""

    def __init__(self, engine: Engine, queue: EventQueue, raw: Raw, meter: Meter) -> None:
        self.lanes = LANES[engine]
        self.published, self.one_by_one, self.drained = PUBLISHED[engine], ONE_BY_ONE[engine], DRAINED[engine]
        self.queue, self.raw, self.meter = queue, raw, meter

    async def publish(self, events: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(events), BATCH):
            await self.queue.publish_many(events[start : start + BATCH])

    async def fill(self) -> None:
        """Something to drain, by the quickest way."""
        await self.raw.publish(self.drained, batch=BATCH, connections=1)


Side = Callable[[Place], Awaitable[Taken]]
Slice = tuple[Side, Side]
"""The same work by Event Hub, and by the bare driver."""


async def _publish_batch(place: Place) -> Taken:
    return await place.meter(place.publish(batch(place.published)))


async def _raw_publish_batch(place: Place) -> Taken:
    return await place.meter(place.raw.publish(place.published, batch=BATCH, connections=1))


async def _publish_16(place: Place) -> Taken:
    numbers = iter(range(place.one_by_one))

    async def publisher() -> None:
        for _ in numbers:
            await place.queue.publish(TYPE, PAYLOAD)

    return await place.meter(asyncio.gather(*(publisher() for _ in range(PUBLISHERS))))


async def _raw_publish_16(place: Place) -> Taken:
    together = PUBLISHERS // place.lanes
    return await place.meter(place.raw.publish(place.one_by_one, batch=together, connections=place.lanes))


async def _drain(place: Place) -> Taken:
    await place.fill()
    return await _drained(place)


async def _ordered(place: Place) -> Taken:
    await place.publish(
        [{**one, "ordering_key": f"key-{number % KEYS}"} for number, one in enumerate(batch(place.drained))]
    )
    return await _drained(place)


async def _drained(place: Place) -> Taken:
    manager = EventManager(place.queue)
    manager.register("nothing", TYPE, _do_nothing)
    taken = await place.meter(manager.run_until_empty())
    if manager.numbers.completed < place.drained:  # the driver publishes one more to warm up
        raise RuntimeError(f"{manager.numbers.completed:,} events were completed instead of {place.drained:,}.")
    return taken


async def _raw_drain(place: Place) -> Taken:
    await place.fill()

    async def drain() -> None:
        done, _ = await place.raw.drain(place.drained, batch=CLAIM)
        if done != place.drained:
            raise RuntimeError(f"The driver completed {done:,} events instead of {place.drained:,}.")

    return await place.meter(drain())


async def _do_nothing(_: object) -> None:
    """Handle an event."""


SLICES: Final[dict[str, Slice]] = {
    "drain": (_drain, _raw_drain),
    "ordered": (_ordered, _raw_drain),
    "publish-batch": (_publish_batch, _raw_publish_batch),
    "publish-16": (_publish_16, _raw_publish_16),
}
