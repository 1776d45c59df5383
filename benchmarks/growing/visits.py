"""A visit of one size: what an event costs there, in microseconds, by what is done with it.

Everything goes through the public faces. Databases with a backlog are filled once and kept; all others are fresh at
every visit, because what is measured would change them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from time import perf_counter
from typing import Any, Final

from benchmarks.comparing.databases import tidy_postgres
from benchmarks.growing.messages import visit_subscribers
from benchmarks.growing.settings import Curve, Settings
from benchmarks.peers.peer import OrderedTally, Tally
from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.settings import BATCH, TYPE
from eventhub.bench.workloads import Context, drain, fill, timed
from eventhub.core.events import QueuedEvent
from eventhub.core.lifecycle import Release
from eventhub.queue import EventManager, EventQueue
from eventhub.store import open_store
from eventhub.store.values import Report

__all__ = ["VISITS", "Costs"]

Costs = dict[str, float]
Visit = Callable[[Context, Settings, int], Awaitable[Costs]]

MICROSECONDS: Final = 1e6
KEYS_SHARE: Final = 4
"""One event of how many is drained in order: with a single key they go one by one."""
EVENTS_A_KEY: Final = 2
CLAIMED: Final = 100
"""Events in a claim by tag."""
CLAIMS: Final = 20
LEASE: Final = timedelta(minutes=5)


async def _backlog(context: Context, settings: Settings, size: int) -> Costs:
    """Publish and drain while so many wait."""

    async def prepare(url: str) -> None:
        await fill(url, size)
        if context.engine == "postgres":
            await tidy_postgres(url)

    url = await context.keep(f"backlog-{size}", prepare)
    async with EventQueue(url) as queue:
        missing = size - await _waiting(queue)  # a manager that is stopped has done a little more than it was meant to
    if missing > 0:
        await fill(url, missing)
    events = [{"type": TYPE, "payload": PAYLOAD}] * (settings.events + 1)
    return {
        "publish": await _published(url, events),
        "drain": MICROSECONDS / (await drain(url, settings.events)).value,
    }


async def _keys(context: Context, settings: Settings, size: int) -> Costs:
    """Publish and drain in the order of so many keys; every handler call is checked for its place."""
    count = max(settings.events // KEYS_SHARE, EVENTS_A_KEY * size) + 1
    events = [
        {"type": TYPE, "payload": {"key": key, "number": number, **PAYLOAD}, "ordering_key": key}
        for number, key in ((number, f"key-{number % size}") for number in range(count))
    ]
    async with context.databases.fresh() as url:
        published = await _published(url, events)
        tally = OrderedTally(count)
        drained = await _drained(url, tally)
        if tally.out_of_order:
            raise RuntimeError(f"{tally.out_of_order:,} of {count:,} events were handled out of order.")
    return {"publish": published, "drain": drained}


async def _tags(context: Context, settings: Settings, size: int) -> Costs:
    """Publish, claim by one tag and drain all when events have one of so many sets of tags."""
    count = max(settings.events, CLAIMED * size) + size
    events = [{"type": TYPE, "payload": PAYLOAD, "tags": f"tag-{number % size}"} for number in range(count)]
    async with context.databases.fresh() as url:
        published = await _published(url, events, first=size)  # a set of tags costs something once
        claimed = await _claimed(url, "tag-0")
        drained = await _drained(url, Tally(count))
    return {"publish": published, "claim by tag and release": claimed, "drain": drained}


VISITS: Final[Mapping[Curve, Visit]] = {
    "backlog": _backlog,
    "subscribers": visit_subscribers,
    "keys": _keys,
    "tags": _tags,
}


async def _published(url: str, events: Sequence[Mapping[str, Any]], *, first: int = 1) -> float:
    """The first ones only warm up."""
    async with EventQueue(url) as queue:
        await queue.publish_many(events[:first])

        async def publish() -> None:
            for start in range(first, len(events), BATCH):
                await queue.publish_many(events[start : start + BATCH])

        return await timed(publish()) / (len(events) - first) * MICROSECONDS


async def _drained(url: str, tally: Tally) -> float:
    async def handler(event: QueuedEvent) -> None:
        tally(event.payload)

    async with EventQueue(url) as queue:
        manager = EventManager(queue)
        manager.register("growth", TYPE, handler)
        took = await timed(manager.run_until_empty())
    if tally.count != tally.wanted:
        raise RuntimeError(f"{tally.count:,} events were handled instead of {tally.wanted:,}.")
    return took / tally.count * MICROSECONDS


async def _claimed(url: str, tag: str) -> float:
    """Take some events of a tag and give them back, over and over; the first time only warms up."""
    seconds = 0.0
    async with open_store(url) as store:
        for number in range(CLAIMS + 1):
            started = perf_counter()
            claims = await store.claim("default", worker="growth", lease=LEASE, limit=CLAIMED, tags=frozenset({tag}))
            await store.settle([Report(claim.held, Release()) for claim in claims])
            seconds += (perf_counter() - started) if number else 0.0
            if len(claims) != CLAIMED:
                raise RuntimeError(f"{len(claims)} events were claimed instead of {CLAIMED}.")
    return seconds / (CLAIMS * CLAIMED) * MICROSECONDS


async def _waiting(queue: EventQueue) -> int:
    return sum(count for status, count in (await queue.stats()).depth.items() if status in ("PENDING", "PROCESSING"))
