"""A lake for tests that are about what comes after the copies: made without Spark, by the same protocol."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from eventhub.core.lifecycle import Bury, Complete
from eventhub.lake.datasets import COLUMNS, DAY, schema_of
from eventhub.lake.files import write_day_files
from eventhub.lake.place import Lake
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.tables import chosen
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.ledger import DATASETS, Dataset
from eventhub.store.values import Report

OLD = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""A day that is long over."""


async def copy(store: Store, lake: Lake) -> None:
    """Bring the lake up to date."""
    hub = await store.hub_id()
    for dataset in DATASETS:
        intended = await store.intend_commit(dataset, last=await store.horizon(dataset))
        if intended is None:
            continue
        table = lake.dataset(dataset)
        rows = _rows(store.url, dataset, Visible(intended.first, intended.last))
        entries = list(write_day_files(rows, *table.filesystem(), name=f"part-{intended.number}"))
        table.commit(entries, source=f"{hub}/{dataset}", number=intended.number)
        await store.finish_commit(dataset, intended.number, sum(entry.rows for entry in entries))


def _rows(url: str, dataset: Dataset, visible: Visible) -> Iterator[pa.RecordBatch]:
    names = [name for name, _ in COLUMNS[dataset] if name != DAY]
    for batch in open_database(url).read(Slice(dataset, visible), chosen(dataset, names)):
        days = batch.column("created_at").cast(pa.date32())
        yield pa.RecordBatch.from_arrays([*batch.columns, days], schema=schema_of(dataset))


async def publish(store: Store, count: int, *, now: datetime | None = OLD, first: int = 0, **more: object) -> list[int]:
    events = [{"type": f"kind.{n % 3}", "payload": {"n": n}, **more} for n in range(first, first + count)]
    return [one.id for one in await store.publish(Composer("default").many(events), now=now)]


async def work(store: Store, *, dead: int = 0, now: datetime | None = OLD) -> None:
    """Settle all that waits; the first ``dead`` of it die."""
    claims = await store.claim("default", worker="w", lease=timedelta(minutes=1), limit=100_000, now=now)
    outcomes = [Bury("boom") if place < dead else Complete(execution_ms=5) for place in range(len(claims))]
    reports = [Report(claim.held, outcome) for claim, outcome in zip(claims, outcomes, strict=True)]
    await store.settle(reports, now=now)


def history(url: str, lake: Lake, count: int) -> list[int]:
    """Settled events of an old day, in the lake, and one of today, which is not settled."""

    async def made() -> list[int]:
        async with open_store(url) as store:
            numbers = await publish(store, count)
            await work(store)
            await publish(store, 1, now=None)
            await copy(store, lake)
            return numbers

    return asyncio.run(made())
