"""A lake for tests that are about what comes after the copies: made without Spark, by the same protocol."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from eventhub.core.lifecycle import Bury, Complete
from eventhub.lake.place import Lake
from eventhub.pipeline.extraction import Extraction
from eventhub.store import Store
from eventhub.store.composing import Composer
from eventhub.store.ledger import DATASETS
from eventhub.store.values import Report

OLD = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""A day that is long over."""


async def copy(store: Store, lake: Lake) -> None:
    """Bring the lake up to date; for so little Spark is not started.

    A transaction anywhere in the cluster may hold the horizon back for a moment: its end is waited for.
    """
    extraction = Extraction(store, lake, spark=_no_spark)
    for dataset in DATASETS:
        while True:
            copied = await extraction.extract(dataset)
            if not (await store.waiting(dataset, copied.position)).rows:
                break
            await asyncio.sleep(0.01)


def _no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed for so little.")


async def publish(store: Store, count: int, *, now: datetime | None = OLD, first: int = 0, **more: object) -> list[int]:
    events = [{"type": f"kind.{n % 3}", "payload": {"n": n}, **more} for n in range(first, first + count)]
    return [one.id for one in await store.publish(Composer("default").many(events), now=now)]


async def work(store: Store, *, dead: int = 0, now: datetime | None = OLD) -> None:
    """Settle all that waits; the first ``dead`` of it die."""
    claims = await store.claim("default", worker="w", lease=timedelta(minutes=1), limit=100_000, now=now)
    outcomes = [Bury("boom") if place < dead else Complete(execution_ms=5) for place in range(len(claims))]
    reports = [Report(claim.held, outcome) for claim, outcome in zip(claims, outcomes, strict=True)]
    await store.settle(reports, now=now)


class Silent:
    """Nobody is told."""

    def begin(self, step: str) -> None: ...
    def note(self, doing: str) -> None: ...
    def end(self, words: str) -> None: ...
