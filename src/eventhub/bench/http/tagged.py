"""Claiming by a tag while jobs with other tags stand before it, and the same without tags in a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from time import perf_counter
from typing import Any, Final

from eventhub.bench.figures import Sample, share
from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.settings import BATCH, TYPE
from eventhub.core.lifecycle import Release
from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.store.values import Report

__all__ = ["CLAIMED", "claim_tagged", "claim_untagged", "fill_tagged", "fill_work"]

CLAIMED: Final = 100
"""Jobs in one claim."""
WAITING: Final = 10 * CLAIMED
"""Jobs that may be claimed."""
WANTED: Final = "wanted"
OTHERS: Final = tuple(f"other-{number}" for number in range(10))
MIXED: Final = "mixed"
ALONE: Final = "alone"
WORKER: Final = "bench"
LEASE: Final = timedelta(minutes=5)


async def fill_work(url: str, count: int, *, queue: str = "work", tags: tuple[str, ...] = ("email",)) -> None:
    """Publish so many jobs; their tags take turns."""
    await _fill(url, queue, count, tags)


async def fill_tagged(url: str, backlog: int) -> None:
    """A queue in which others stand before those that are wanted, and one that has none but those."""
    await _fill(url, MIXED, backlog, OTHERS)
    await _fill(url, MIXED, WAITING, (WANTED,))
    await _fill(url, ALONE, WAITING, ())


async def _fill(url: str, name: str, count: int, tags: tuple[str, ...]) -> None:
    async with EventQueue(url, queue=name) as queue:
        batches = _batches(count, tags)

        async def publisher() -> None:
            for batch in batches:
                await queue.publish_many(batch)

        await asyncio.gather(publisher(), publisher())


def _batches(count: int, tags: tuple[str, ...]) -> Iterator[list[dict[str, Any]]]:
    jobs: list[dict[str, Any]] = [{"type": TYPE, "payload": PAYLOAD, "tags": tag} for tag in tags]
    jobs = jobs or [{"type": TYPE, "payload": PAYLOAD}]
    for start in range(0, count, BATCH):
        yield [jobs[number % len(jobs)] for number in range(start, min(start + BATCH, count))]


async def claim_tagged(url: str, times: int) -> Sample:
    return await _claims(url, MIXED, frozenset({WANTED}), times)


async def claim_untagged(url: str, times: int) -> Sample:
    return await _claims(url, ALONE, None, times)


async def _claims(url: str, queue: str, tags: frozenset[str] | None, times: int) -> Sample:
    """Take a hundred and give them back, one time after the other."""
    found = []
    async with open_store(url) as store:
        for number in range(times + 1):
            started = perf_counter()
            claims = await store.claim(queue, worker=WORKER, lease=LEASE, limit=CLAIMED, tags=tags)
            await store.settle([Report(claim.held, Release()) for claim in claims])
            took = perf_counter() - started
            if len(claims) != CLAIMED:
                raise RuntimeError(f"{len(claims)} jobs were claimed instead of {CLAIMED}.")
            if number:  # the first one only warms up
                found.append(took * 1000)
    ordered = sorted(found)
    return Sample(share(ordered, 0.5), {"p99": share(ordered, 0.99)})
