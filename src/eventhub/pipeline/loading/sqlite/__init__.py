"""Loading into SQLite: rows in bulk under its write lock, a part at a time so that others get their turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from eventhub.errors import StoreUnavailable
from eventhub.pipeline.loading.rows import highest, moved_on
from eventhub.pipeline.loading.target import RouteName, Target
from eventhub.pipeline.source.sqlite import SqliteDatabase
from eventhub.store.ledger import Dataset
from eventhub.store.messages import HUB
from eventhub.store.queries import load_queries
from eventhub.store.sqlite.connection import check_library, clock, connect, translated
from eventhub.store.values import lane_id

__all__ = ["SqliteTarget"]

SQL = load_queries("eventhub.pipeline.loading.sqlite")
_INSERT: Final = {"events": SQL.insert_events, "event_log": SQL.insert_event_log}


class SqliteTarget(Target):
    """One connection. A row's position is its id, so that what was copied once is not copied again by itself."""

    def __enter__(self) -> Self:
        source = SqliteDatabase(self.url)
        source.origin()  # says what is missing
        self._path = source.path
        check_library()
        if not Path(self._path).is_file():
            raise StoreUnavailable(f"There is no file {Path(self._path).absolute()}. Give the path of the database.")
        self._connection = connect(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def routes(self, names: Sequence[RouteName]) -> list[int]:
        numbers = []
        with self._transaction():
            for queue, tags, type_ in names:
                named = {"queue": queue, "tags": tags, "type": type_}
                self._connection.execute(SQL.intern_route, {**named, "now": clock()})
                numbers.append(int(self._connection.execute(SQL.find_route, named).get))
        return numbers

    def insert(self, dataset: Dataset, rows: pa.RecordBatch, *, copied: bool = False) -> int:  # noqa: ARG002
        names = ("id",) if dataset == "events" else ("event_id", "delivery_id")
        with self._transaction():
            self._connection.execute(SQL.pass_ids, {"last": max(highest(rows, name) for name in names)})
            before = self._connection.total_changes()
            self._connection.executemany(_INSERT[dataset], _tuples(rows))
            return self._connection.total_changes() - before

    def pass_ids(self, last: int) -> None:
        with self._transaction():
            self._connection.execute(SQL.pass_ids, {"last": last})

    def next_entry(self) -> int:
        with translated(self._path):
            return int(self._connection.execute(SQL.next_entry).get)

    def append(self, events: pa.RecordBatch, entries: pa.RecordBatch, *, ids: int) -> int:
        with self._transaction():
            run = self._connection.execute
            first, first_entry = int(run(SQL.take_ids, {"count": ids}).get), int(run(SQL.next_entry).get)
            self._connection.executemany(_INSERT["events"], _tuples(moved_on(events, first)))
            log = moved_on(entries, first, first_entry=first_entry)
            self._connection.executemany(_INSERT["event_log"], _tuples(log))
            span = {"first": first, "last": first + ids - 1}
            run(SQL.bury, {**span, "hub": HUB})
            lanes = [(lane_id(queue, key), queue, key) for queue, key in run(SQL.dead_keys, span)]
            self._connection.executemany(
                SQL.set_lane, [(lane, *span.values(), key, queue) for lane, queue, key in lanes]
            )
        return first

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with translated(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _tuples(rows: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_values, rows.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    plain = pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column
    values: list[Any] = plain.to_pylist()
    return values
