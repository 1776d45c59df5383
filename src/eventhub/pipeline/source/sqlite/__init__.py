"""SQLite as a source: read through the same library as everything else, in parts by ids.

Never through another build of SQLite: two of them in one process, or of different age on one file, can damage it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import apsw
import pyarrow as pa

from eventhub.errors import SchemaMismatch, StoreUnavailable
from eventhub.pipeline.source.conditions import Condition
from eventhub.pipeline.source.database import NEEDED_SCHEMA, Database, Slice, Visible
from eventhub.pipeline.source.tables import Column, arrow_schema
from eventhub.store.ledger import Dataset
from eventhub.store.queries import load_queries
from eventhub.store.rows import micros
from eventhub.store.sqlite.connection import check_library, connect, translated

__all__ = ["SqliteDatabase"]

SQL = load_queries("eventhub.pipeline.source.sqlite")
SMALL: Final = 50_000
BATCH_ROWS: Final = 8192
BATCH_BYTES: Final = 4 << 20
FEW_ROWS: Final = 64
LARGE: Final = ("payload", "error")
"""What makes some rows much larger than others."""
ROUTES: Final = "JOIN eventhub_routes r ON r.id = t.route"
_HORIZONS: Final = {"events": SQL.horizon_events, "event_log": SQL.horizon_event_log, "audit": SQL.horizon_audit}
_FIRSTS: Final = {"events": SQL.first_events, "event_log": SQL.first_event_log, "audit": SQL.first_audit}
_COUNTS: Final = {"events": SQL.count_events, "event_log": SQL.count_event_log, "audit": SQL.count_audit}
_AFTER: Final = {"events": SQL.after_events, "event_log": SQL.after_event_log, "audit": SQL.after_audit}


class SqliteDatabase(Database):
    """Positions are ids of rows."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.path = url
        if url.startswith("sqlite:"):
            parts = urlsplit(url)
            self.path = unquote(parts.netloc + parts.path).removeprefix("/" if "://" in url else "")

    def origin(self) -> str:
        with self._connected() as connection:
            self._check(connection)
            return str(connection.execute(SQL.origin).get)

    def current(self, table: Dataset) -> Visible:
        with self._connected() as connection:
            self._check(connection)
        return Visible(last=self.horizon(table))

    def horizon(self, table: Dataset) -> int:
        with self._connected() as connection:
            return int(connection.execute(_HORIZONS[table]).get)

    def after(self, table: Dataset, first: int, last: int, rows: int) -> int:
        with self._connected() as connection:
            named = {"first": first, "last": last, "rows": rows}
            found = connection.execute(_AFTER[table], named).fetchone()
        return last if found is None else int(found[0])

    def count(self, table: Dataset, first: int, last: int, most: int) -> int:
        with self._connected() as connection:
            named = {"first": first, "last": last, "most": most}
            return int(connection.execute(_COUNTS[table], named).get)

    def total(self, table: Dataset) -> int:
        return self.horizon(table)

    def settled_slices(self, table: Dataset, first: int, last: int, partitions: int) -> list[Slice]:
        return self.slices(Slice(table, Visible(first, last)), partitions)

    def layout(self, parts: Sequence[Slice]) -> tuple[str, ...]:  # noqa: ARG002 - ids are what they are
        return ()

    def slices(self, whole: Slice, partitions: int | None) -> list[Slice]:
        with self._connected() as connection:
            first = int(connection.execute(_FIRSTS[whole.table], {"first": whole.visible.first}).get)
        last = first if whole.visible.last is None else whole.visible.last
        wanted = partitions or (1 if last - first < SMALL else os.cpu_count() or 1)
        wanted = max(min(wanted, last - first), 1)
        bounds = [first + (last - first) * place // wanted for place in range(wanted + 1)]
        return [Slice(whole.table, Visible(low, high), whole.conditions) for low, high in pairwise(bounds)]

    def remaining(self, parts: Sequence[Slice]) -> list[Slice | None]:
        return list(parts)

    def read(self, part: Slice, columns: Sequence[Column]) -> Generator[pa.RecordBatch, None, None]:
        schema = arrow_schema(columns)
        query, values = _select(part, columns)
        with self._connected() as connection:
            rows = connection.execute(query, values)
            for batch in _portions(rows, [place for place, column in enumerate(columns) if column.name in LARGE]):
                arrays = [
                    pa.array(column, field.type) for column, field in zip(zip(*batch, strict=True), schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check(self, connection: apsw.Connection) -> None:
        try:
            version = int(connection.execute(SQL.schema_version).get)
        except apsw.SQLError:
            raise SchemaMismatch(
                f"{self.path} has no tables of eventhub. Check the path, or run `eventhub migrate` against it."
            ) from None
        if version < NEEDED_SCHEMA:
            raise SchemaMismatch(
                f"{self.path} has tables of version {version}; version {NEEDED_SCHEMA} or newer is needed. "
                "Run `eventhub migrate` against this database."
            )

    @contextmanager
    def _connected(self) -> Iterator[apsw.Connection]:
        check_library()
        if not Path(self.path).is_file():
            raise StoreUnavailable(
                f"There is no file {Path(self.path).absolute()}. "
                "Give the path of the database as every executor sees it."
            )
        connection = connect(self.path, read_only=True)
        try:
            with translated(self.path):
                yield connection
        finally:
            connection.close()


def _portions(rows: Iterator[Any], large: Sequence[int]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows together as long as they are neither many nor large."""
    batch: list[tuple[Any, ...]] = []
    size = 0
    while few := list(islice(rows, FEW_ROWS)):
        batch += few
        size += sum(len(row[place] or "") for row in few for place in large)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _select(part: Slice, columns: Sequence[Column]) -> tuple[str, list[Any]]:
    """The statement that reads a part; its text is made of known columns only, values are bound."""
    wanted = ", ".join(column.sqlite for column in columns)
    joined = ROUTES if any(column.of_route for column in columns) else ""
    where, values = ["t.id >= ?"], [part.visible.first]
    if part.visible.last is not None:
        where.append("t.id < ?")
        values.append(part.visible.last)
    for condition in part.conditions:
        where.append(_compared(condition))
        values += map(_bound, condition.values)
    text = f"SELECT {wanted} FROM eventhub_{part.table} t {joined} WHERE {' AND '.join(where)} ORDER BY t.id"  # noqa: S608
    return text, values


def _compared(condition: Condition) -> str:
    marks = ", ".join("?" * len(condition.values))
    if condition.operator == "IN":
        return f"{condition.column.sqlite} IN ({marks})"
    return f"{condition.column.sqlite} {condition.operator} {marks}"


def _bound(value: Any) -> Any:
    return micros(value.astimezone(UTC)) if isinstance(value, datetime) else value
