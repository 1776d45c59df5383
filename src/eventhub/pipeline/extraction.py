"""Copying rows of the hub to the lake, each exactly once.

    ledger and lake agree? ─▶ intend a range below the horizon as copy n ─▶ tasks read it and write files
        ─▶ one commit of the lake, which carries n ─▶ done in the ledger

A crash leaves at most one intention. If the lake has its number, only the last step is missing; if not, the same range
is read again, gives the same rows, and the files that were written before belong to nothing. Of two who copy the same
range at once, the lake refuses the second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from eventhub.lake.datasets import DAY, schema_of
from eventhub.lake.files import FileEntry, write_day_files
from eventhub.pipeline.agreement import check_agreement, check_same_copy, incarnation_name, origin_name
from eventhub.pipeline.ahead import fetched_ahead
from eventhub.pipeline.baseline import baseline_name, merge
from eventhub.pipeline.frames import ENTRIES, as_batch, entries_of
from eventhub.pipeline.source.database import Slice, Visible, located, open_database
from eventhub.pipeline.source.tables import chosen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventhub.lake.place import Lake
    from eventhub.lake.tables import LakeTable
    from eventhub.store import Store
    from eventhub.store.ledger import Dataset, LakeCommit

__all__ = ["Copied", "Extraction"]

MOST_ROWS: Final = 5_000_000
"""Rows of one copy: what is done by then need not be done again."""
SMALL: Final = 50_000
"""So many rows are copied sooner here than tasks are started elsewhere."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied: rows in so many commits, the last number, and the position below which the lake has all."""

    dataset: Dataset
    rows: int
    commits: int
    number: int
    position: int
    seconds: float


async def _unasked() -> None:
    """Nobody minds the commit."""


class Extraction:
    """Copies from one hub to one lake. ``spark`` is asked for when there is much to do.

    ``before_commit`` may raise: then the copy stays an intention, for whoever comes next.
    """

    def __init__(
        self,
        store: Store,
        lake: Lake,
        *,
        spark: Callable[[], SparkSession],
        before_commit: Callable[[], Awaitable[None]] = _unasked,
        partitions: int | None = None,
        most_rows: int = MOST_ROWS,
    ) -> None:
        self._store, self._lake, self._spark = store, lake, spark
        self._before_commit = before_commit
        self._partitions, self._most_rows = partitions, most_rows
        self._url = located(store.url)
        self._database = open_database(self._url)

    async def horizon(self, dataset: Dataset) -> int:
        """How far can be copied now."""
        return await asyncio.to_thread(self._database.horizon, dataset)

    async def extract(self, dataset: Dataset, *, upto: int | None = None) -> Copied:
        """Copy what there is below ``upto``, or the horizon; first of all, what an earlier run has left."""
        began = time.monotonic()
        horizon = await self.horizon(dataset)
        table = self._lake.dataset(dataset)
        await check_agreement(self._store, table, dataset, horizon)
        rows = commits = 0
        await asyncio.to_thread(self._lake.prepare)
        while (intention := await self._intend(dataset, horizon if upto is None else upto)) is not None:
            rows += await self._copy(table, intention)
            commits += 1
        newest = await self._store.lake_commits(dataset, limit=1)
        return Copied(
            dataset=dataset,
            rows=rows,
            commits=commits,
            number=newest[0].number if newest else 0,
            position=newest[0].last if newest else 0,
            seconds=time.monotonic() - began,
        )

    async def _intend(self, dataset: Dataset, upto: int) -> LakeCommit | None:
        newest = await self._store.lake_commits(dataset, limit=1)
        if newest and newest[0].done_at is None:
            return newest[0]
        first = newest[0].last if newest else 0
        last = await asyncio.to_thread(self._end_of_copy, dataset, max(first, 1), upto)
        return None if last is None else await self._store.intend_commit(dataset, last=last)

    def _end_of_copy(self, dataset: Dataset, first: int, upto: int) -> int | None:
        """How far the next copy goes; None when no row is there: it would only be a commit that says nothing."""
        if first >= upto or not self._database.count(dataset, first, upto, 1):
            return None
        if self._database.total(dataset) <= self._most_rows:
            return upto
        return self._database.after(dataset, first, upto, self._most_rows)

    async def _copy(self, table: LakeTable, intention: LakeCommit) -> int:
        store, dataset, number = self._store, intention.dataset, intention.number
        source = f"{await store.hub_id()}/{dataset}"
        before = table.last_number(source)
        if before < number:
            entries = await asyncio.to_thread(self._write, table, intention)
            rows, days = sum(entry.rows for entry in entries), set[str]()
            also = [
                origin_name(source, await store.origin()),
                incarnation_name(source, await store.incarnation()),
            ]
            if intention.is_baseline:
                also.append(baseline_name(source))
                entries, days, rows = await asyncio.to_thread(merge, self._spark, table, entries)
            await self._before_commit()
            about = {"first": intention.first, "last": intention.last, "rows": rows}
            commit = partial(table.replace, entries, days, source=source, number=number, also=also, about=about)
            if await asyncio.to_thread(commit, after=before):
                await store.finish_commit(dataset, number, rows)
                return rows
        rows = await asyncio.to_thread(check_same_copy, table, source, intention)
        await store.finish_commit(dataset, number, rows)
        return rows

    def _write(self, table: LakeTable, intention: LakeCommit) -> list[FileEntry]:
        """Write the files of a copy; again, when the rows were moved around meanwhile."""
        while True:
            parts = self._parts(intention)
            layout = self._database.layout(parts)
            entries = self._write_parts(table, parts, f"{intention.number:06}")
            if self._database.layout(parts) == layout:
                return entries

    def _parts(self, intention: LakeCommit) -> list[Slice]:
        dataset = intention.dataset
        # Position 0 is that of rows which came from the lake; who starts anew looks at them, too.
        first, last = (0 if intention.is_baseline else max(intention.first, 1)), intention.last
        if self._partitions is None and self._database.count(dataset, first, last, SMALL) < SMALL:
            return [Slice(dataset, Visible(first, last))]
        wanted = self._partitions or self._spark().sparkContext.defaultParallelism
        return self._database.settled_slices(dataset, first, last, wanted)

    def _write_parts(self, table: LakeTable, parts: Sequence[Slice], name: str) -> list[FileEntry]:
        url = self._url
        if len(parts) == 1:
            return list(_write_part(url, table, parts[0], f"{name}-0"))

        def task(places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in places:
                for place in batch.column(0).to_pylist():
                    for entry in _write_part(url, table, parts[place], f"{name}-{place}"):
                        yield as_batch(entry)

        count = len(parts)
        return entries_of(self._spark().range(0, count, 1, count).mapInArrow(task, ENTRIES))


def _write_part(url: str, table: LakeTable, part: Slice, name: str) -> Iterator[FileEntry]:
    """One task: from the database into files, without a row through Java."""
    schema = schema_of(part.table)
    columns = chosen(part.table, [column for column in schema.names if column != DAY])
    rows = fetched_ahead(open_database(url).read(part, columns))
    dated = (_with_day(batch, schema) for batch in rows)
    return write_day_files(dated, *table.filesystem(), name=name)


def _with_day(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    days = batch.column("created_at").cast(pa.date32())
    return pa.RecordBatch.from_arrays([*batch.columns, days], schema=schema)
