"""What a message costs when there are more subscribers: publishing, handing out, and sending to a real receiver."""

from __future__ import annotations

import asyncio
from time import monotonic, perf_counter
from typing import Final

from benchmarks.growing.settings import Settings
from eventhub.bench.http.processes import BenchFailed
from eventhub.bench.settings import BATCH
from eventhub.bench.webhooks.flow import check
from eventhub.bench.webhooks.processes import dispatcher
from eventhub.bench.webhooks.stage import A, Stage, event, stage
from eventhub.bench.workloads import Context, timed

__all__ = ["visit_subscribers"]

MICROSECONDS: Final = 1e6
GLANCE: Final = 0.01
PATIENCE: Final = 120.0
ONE_WANTS: Final = 10
"""One event of how many messages is handed out where a single subscriber wants it."""


async def visit_subscribers(context: Context, settings: Settings, size: int) -> dict[str, float]:
    return {**await _wanted_by_one(context, settings, size), **await _wanted_by_all(context, settings, size)}


async def _wanted_by_one(context: Context, settings: Settings, size: int) -> dict[str, float]:
    """There are so many subscribers, and one of them wants these events."""
    async with stage(context) as on:
        await on.subscribe([A, *(f"bench.other.{number}" for number in range(1, size))])
        count = max(settings.messages // ONE_WANTS, 1)
        await _learnt(on)
        published = await timed(_publish(on, count)) / count
        started = perf_counter()
        if await on.hand_out() != count:
            raise BenchFailed(f"Not exactly {count:,} messages were made.")
        handed_out = (perf_counter() - started) / count
    return {"publish": published * MICROSECONDS, "hand out to one": handed_out * MICROSECONDS}


async def _wanted_by_all(context: Context, settings: Settings, size: int) -> dict[str, float]:
    """Every event goes to each of them: what is handed out is then sent by a process of its own."""
    async with stage(context) as on:
        await on.subscribe([A] * size)
        events = max(settings.messages // size, 1)
        total = events * size
        await _publish(on, events)
        started = perf_counter()
        if await on.hand_out() != total:
            raise BenchFailed(f"Not exactly {total:,} messages were made.")
        handed_out = (perf_counter() - started) / total
        async with dispatcher(on.url, on.secret_file):
            delivered = await _delivered(on, total)
    return {"hand out to all": handed_out * MICROSECONDS, "deliver": delivered * MICROSECONDS}


async def _learnt(on: Stage) -> None:
    """Who publishes and who hands out know all subscribers; they learn that once, whatever there is to do."""
    await _publish(on, 1)
    await on.hand_out()


async def _publish(on: Stage, count: int) -> None:
    for start in range(0, count, BATCH):
        await on.hub.publish_many([event(number, A) for number in range(start, min(start + BATCH, count))])


async def _delivered(on: Stage, total: int) -> float:
    """Seconds a message, from the last look that saw none to the last message; each must come once."""
    before = tally = await on.receiver.look()
    ends = monotonic() + PATIENCE
    while tally.received < total:
        if monotonic() > ends:
            raise BenchFailed(f"{tally.received:,} of {total:,} webhooks came within {PATIENCE:g} s.")
        await asyncio.sleep(GLANCE)
        tally = await on.receiver.look()
        if not tally.received:
            before = tally
    check(tally)
    if tally.received != total:
        raise BenchFailed(f"{tally.received:,} webhooks came instead of {total:,}.")
    return (tally.at - before.at) / total
