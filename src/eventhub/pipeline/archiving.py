"""Archiving: days that are safe in the lake leave the database.

    old day ─▶ its copied rows are read, and their copies in the lake again ─▶ count and checksum agree ─▶ pruned
                                                              └─ they do not ─▶ the day stays whole, and is reported

Events go first, those of which nothing is open; then the log rows whose event is gone. Every step can be repeated:
whoever is killed in between leaves rows in both places, and the next run takes them up. No Spark is needed.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eventhub.errors import LakeMismatch
from eventhub.lake.datasets import COLUMNS, DAY
from eventhub.lake.gathering import gathered
from eventhub.lake.place import Lake
from eventhub.lake.reading import TableReader
from eventhub.lake.verifying import compare
from eventhub.pipeline.agreement import check_agreement
from eventhub.pipeline.locking import Hold, hold
from eventhub.pipeline.source.conditions import Condition, Operator
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.tables import TABLES, chosen
from eventhub.store import Store
from eventhub.store.ledger import DATASETS, Dataset
from eventhub.store.pruning import OldDay, day_bounds

__all__ = ["LOCK", "ArchivedDay", "archive"]

LOCK: Final = "archive"
"""Who archives or restores holds it."""
CHUNK_ROWS: Final = 200_000
CHUNK_BYTES: Final = 128 << 20
"""So much is compared at a time."""
BATCH: Final = 5_000
"""Rows of one transaction of a deletion."""
REST: Final = 0.5
"""After each, others get their turn, for this share of the time it took."""


class ArchivedDay(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a day of one dataset: ``gone`` left, ``staying`` is still needed; with ``trouble`` all stayed."""

    day: date
    dataset: Dataset
    rows: int
    gone: int
    staying: int
    trouble: str | None = None


class _Verified(msgspec.Struct, frozen=True):
    """Rows of a day that the lake has, by id and event; or what is wrong with the day."""

    ids: Sequence[int]
    events: Sequence[int]
    trouble: str | None = None


async def archive(
    store: Store, url: str, lake: Lake, *, before: datetime, dry_run: bool = False
) -> AsyncGenerator[ArchivedDay, None]:
    """Archive the days that end before this moment, one after the other, each told when it is done."""
    await store.open()
    if dry_run:
        for day in await store.old_event_days(before):
            yield _told(day, "events", 0)
        for day in await store.old_log_days(before, planned=True):
            yield _told(day, "event_log", 0)
        return
    async with hold(store, LOCK) as held:
        archiver = _Archiver(store, url, lake, held)
        await archiver.look()
        for day in await store.old_event_days(before):
            yield await archiver.events(day)
        for day in await store.old_log_days(before):
            yield await archiver.log(day)


def _told(day: OldDay, dataset: Dataset, gone: int, trouble: str | None = None) -> ArchivedDay:
    left = day.rows - gone
    return ArchivedDay(
        day=day.day, dataset=dataset, rows=day.rows, gone=gone, staying=left if gone else day.staying, trouble=trouble
    )


class _Archiver:
    """One run, which holds the lock."""

    def __init__(self, store: Store, url: str, lake: Lake, held: Hold) -> None:
        self._store, self._url, self._held = store, url, held
        self._tables = {name: lake.dataset(name) for name in DATASETS}
        self._copied: dict[Dataset, int] = {}

    async def look(self) -> None:
        """Which rows the ledger says were copied, and whether this lake has these copies."""
        for dataset, table in self._tables.items():
            await check_agreement(self._store, table, dataset, await self._store.horizon(dataset))
            done = [commit for commit in await self._store.lake_commits(dataset) if commit.done_at is not None]
            if not done:
                raise LakeMismatch(f"Nothing of {dataset} was copied to a lake yet. Run `eventhub pipeline run` first.")
            self._copied[dataset] = done[0].last

    async def events(self, day: OldDay) -> ArchivedDay:
        found = await self._verified("events", day, None)
        if found.trouble is not None:
            return _told(day, "events", 0, found.trouble)
        copied, log_copied = self._copied["events"], self._copied["event_log"]
        gone = 0
        for batch in _batches(len(found.ids)):
            async with self._step():
                gone += await self._store.prune_events(found.ids[batch], copied=copied, log_copied=log_copied)
        return _told(day, "events", gone)

    async def log(self, day: OldDay) -> ArchivedDay:
        if day.staying == day.rows:
            return _told(day, "event_log", 0)
        staying = await self._store.events_with_log(day.day) if day.staying else []
        found = await self._verified("event_log", day, pa.array(staying, pa.int64()))
        if found.trouble is not None:
            return _told(day, "event_log", 0, found.trouble)
        copied = self._copied["event_log"]
        if not staying and await self._dropped(day.day, len(found.ids)):
            return _told(day, "event_log", len(found.ids))
        gone = 0
        for batch in _batches(len(found.ids)):
            async with self._step():
                rows = list(zip(found.ids[batch], found.events[batch], strict=True))
                gone += await self._store.prune_log(day.day, rows, copied=copied)
        if gone == day.rows:
            await self._dropped(day.day, 0)
        return _told(day, "event_log", gone)

    async def _dropped(self, day: date, rows: int) -> bool:
        async with self._step():
            return await self._store.drop_log_day(day, rows, copied=self._copied["event_log"])

    @asynccontextmanager
    async def _step(self) -> AsyncIterator[None]:
        """One transaction, if this is still the one who may; then a rest."""
        await self._held.confirm()
        began = time.monotonic()
        yield
        await asyncio.sleep((time.monotonic() - began) * REST)

    async def _verified(self, dataset: Dataset, day: OldDay, without: pa.Array | None) -> _Verified:
        self._held.check()
        reader = TableReader(self._tables[dataset])
        rows = _rows(self._url, dataset, day, self._copied[dataset])
        chunks = gathered(rows, enough_rows=CHUNK_ROWS, enough_bytes=CHUNK_BYTES)
        return await asyncio.to_thread(_verify, dataset, day.day, chunks, reader, without)


def _batches(rows: int) -> Iterator[slice]:
    return (slice(first, first + BATCH) for first in range(0, rows, BATCH))


def _verify(
    dataset: Dataset, day: date, chunks: Iterator[pa.Table], lake: TableReader, without: pa.Array | None
) -> _Verified:
    """Compare a whole day before any of it leaves."""
    ids, events = array("q"), array("q")
    for chunk in chunks:
        rows = chunk if without is None else chunk.filter(pc.invert(pc.is_in(chunk["event_id"], without)))
        try:
            found = compare(dataset, rows, lake, day.isoformat())
        except (OSError, pa.ArrowException) as error:
            return _Verified((), (), f"its copy in the lake cannot be read ({error}): nothing of the day was deleted")
        if not found.same:
            named = ", ".join(map(str, found.differing))
            return _Verified(
                (),
                (),
                f"of {found.rows:,} rows of {dataset} the lake has {found.copies:,}, and their checksums differ "
                f"(ids {named}): nothing of the day was deleted",
            )
        ids.frombytes(rows["id"].to_numpy().tobytes())
        if dataset == "event_log":
            events.frombytes(rows["event_id"].to_numpy().tobytes())
    return _Verified(ids, events)


def _rows(url: str, dataset: Dataset, day: OldDay, copied: int) -> Iterator[pa.RecordBatch]:
    """The rows of a day that were copied, as the database has them."""
    columns = {column.name: column for column in TABLES[dataset]}
    first, last = day_bounds(day.day)
    given: tuple[tuple[str, Operator, Any], ...] = (
        ("created_at", ">=", first),
        ("created_at", "<", last),
        ("id", ">=", day.first),
        ("id", "<=", day.last),
    )
    conditions = tuple(Condition(columns[name], operator, (value,)) for name, operator, value in given)
    wanted = chosen(dataset, [name for name, _ in COLUMNS[dataset] if name not in ("position", DAY)])
    return open_database(url).read(Slice(dataset, Visible(0, copied), conditions), wanted)
