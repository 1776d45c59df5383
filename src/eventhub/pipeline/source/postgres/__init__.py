"""PostgreSQL as a source: Arrow from the server to Spark, in parts that all see the same rows."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from eventhub.errors import SchemaMismatch, StoreError
from eventhub.pipeline.source.database import NEEDED_SCHEMA, Database, Slice, Visible
from eventhub.pipeline.source.postgres.connection import Connection, connected
from eventhub.pipeline.source.postgres.statements import bounds, select
from eventhub.pipeline.source.postgres.stretches import Stretch, shared_out
from eventhub.pipeline.source.tables import Column, arrow_schema
from eventhub.store.ledger import Dataset
from eventhub.store.opening import shown
from eventhub.store.postgres.connection import OLDEST_SERVER
from eventhub.store.queries import load_queries

__all__ = ["PostgresDatabase"]

SQL = load_queries("eventhub.pipeline.source.postgres")
SMALL: Final = 50_000
"""So many rows are read by one task: more of them would take longer to start."""
BLOCKS_EACH: Final = 1024
"""Blocks of 8 kB that are worth a task of their own."""
FIRST_STRETCH: Final = 256
_FITTING: Final = {"events": SQL.fitting_events, "event_log": SQL.fitting_event_log, "audit": SQL.fitting_audit}
_COUNTS: Final = {"events": SQL.count_events, "event_log": SQL.count_event_log, "audit": SQL.count_audit}
_BLOCKS: Final = {"events": SQL.blocks_events, "event_log": SQL.blocks_event_log, "audit": SQL.blocks_audit}
_RESTORED: Final = {"events": SQL.restored_events, "event_log": SQL.restored_event_log, "audit": SQL.restored_audit}


class PostgresDatabase(Database):
    """Positions are transaction numbers. Nothing is held open between calls, so no snapshot keeps vacuum waiting."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._stretch = FIRST_STRETCH

    def origin(self) -> str:
        with connected(self.url) as connection:
            _check(connection, self.url)
            return str(connection.value(SQL.origin))

    def current(self, table: Dataset) -> Visible:
        with connected(self.url) as connection:
            _check(connection, self.url)
            if _is_restored(connection, table):
                return Visible()  # the numbers of restored rows say nothing: each part sees what it sees
            ((last, still_open),) = connection.rows(SQL.snapshot)
        without = tuple(int(number) for number in still_open.split(",")) if still_open else ()
        return Visible(last=last, without=without)

    def horizon(self, table: Dataset) -> int:
        with connected(self.url) as connection:
            if _is_restored(connection, table):
                raise SchemaMismatch(
                    f"{shown(self.url)} was restored from a dump: rows of {table} carry transaction numbers of another "
                    "server, so that new ones cannot be told from old ones. `eventhub pipeline run --rebaseline` gives "
                    f"them new ones; or set xid = pg_current_xact_id()::text::bigint in all rows of eventhub.{table}. "
                    "Streams then start with a new checkpoint."
                )
            return int(connection.value(SQL.horizon))

    def after(self, table: Dataset, first: int, last: int, rows: int) -> int:
        """A transaction is never cut in two: at least one is taken, however large."""
        found = 0
        with connected(self.url) as connection:
            while first < last:
                end = min(first + self._stretch, last)
                asked = _FITTING[table].format(first=int(first), last=int(end), found=found, rows=int(rows))
                ((count, too_much),) = connection.rows(asked)
                if too_much is not None:
                    self._stretch = max(self._stretch // 2, 1)
                    return int(too_much)
                found += int(count)
                first, self._stretch = end, self._stretch * 2
                if found >= rows:
                    return first
        return last

    def count(self, table: Dataset, first: int, last: int, most: int) -> int:
        with connected(self.url) as connection:
            query = _COUNTS[table].format(first=int(first), last=int(last), most=int(most))
            with _by_index(connection):
                return int(connection.value(query))

    def total(self, table: Dataset) -> int:
        with connected(self.url) as connection:
            return int(_estimate(connection, Slice(table, Visible())))

    def settled_slices(self, table: Dataset, first: int, last: int, partitions: int) -> list[Slice]:
        whole = Slice(table, Visible(first, last))
        if partitions == 1:
            return [whole]
        with connected(self.url) as connection:
            stretches = [Stretch(relation, 0, blocks) for relation, blocks in connection.rows(_BLOCKS[table])]
            if first > 1:  # what came before need not be read
                with _by_index(connection):
                    found = [_holding(connection, whole, one.relation) for one in stretches]
                stretches = [one for one in found if one is not None]
        return [Slice(table, whole.visible, (), blocks) for blocks in shared_out(stretches, partitions)] or [whole]

    def layout(self, parts: Sequence[Slice]) -> tuple[str, ...]:
        read = {blocks.relation for part in parts for blocks in part.blocks}
        return tuple(node for node in self._nodes() if node.rpartition("=")[0] in read) if read else ()

    def remaining(self, parts: Sequence[Slice]) -> list[Slice | None]:
        """Days that were archived took their relations with them."""
        if not any(part.blocks for part in parts):
            return list(parts)
        there = {node.rpartition("=")[0] for node in self._nodes()}
        found: list[Slice | None] = []
        for part in parts:
            blocks = tuple(one for one in part.blocks if one.relation in there)
            found.append(Slice(part.table, part.visible, part.conditions, blocks) if blocks else None)
        return found

    def _nodes(self) -> list[str]:
        with connected(self.url) as connection:
            return [str(row[0]) for row in connection.rows(SQL.file_nodes)]

    def slices(self, whole: Slice, partitions: int | None) -> list[Slice]:
        with connected(self.url) as connection:
            if partitions == 1 or (partitions is None and _estimate(connection, whole) < SMALL):
                return [whole]
            relations = connection.rows(_BLOCKS[whole.table])
        stretches = [Stretch(relation, 0, blocks) for relation, blocks in relations]
        total = sum(one.blocks for one in stretches)
        wanted = partitions or min(os.cpu_count() or 1, max(total // BLOCKS_EACH, 1))
        if wanted == 1 or not total:
            return [whole]
        return [
            Slice(whole.table, whole.visible, whole.conditions, blocks)
            for blocks in shared_out(stretches, wanted, growing=True)
        ]

    def read(self, part: Slice, columns: Sequence[Column]) -> Generator[pa.RecordBatch, None, None]:
        schema = arrow_schema(columns)
        with connected(self.url) as connection:
            for blocks in part.blocks or (None,):
                yield from connection.read(select(part, columns, blocks), schema)


@contextmanager
def _by_index(connection: Connection) -> Iterator[None]:
    """Ranges are found through their index, whatever the planner believes of a table that it has not seen lately.

    In a transaction of its own: behind a pooler a setting of the session would be somebody else's next.
    """
    connection.run("BEGIN; SET LOCAL enable_seqscan = off")
    yield
    connection.run("COMMIT")


def _is_restored(connection: Connection, table: Dataset) -> bool:
    """Whether there are rows of another server."""
    with _by_index(connection):
        return bool(connection.value(_RESTORED[table]))


def _holding(connection: Connection, whole: Slice, relation: str) -> Stretch | None:
    """The blocks of a relation that hold rows of a range."""
    ((first, last),) = connection.rows(bounds(whole, relation))
    return None if first is None else Stretch(relation, _block(first), _block(last) + 1)


def _block(place: str) -> int:
    return int(place.strip("()").partition(",")[0])


def _estimate(connection: Connection, whole: Slice) -> float:
    """How many rows the planner expects."""
    columns: Sequence[Column] = (Column("one", "integer", "1"),)
    plan = connection.value(f"EXPLAIN (FORMAT JSON) {select(whole, columns)}")
    return float(json.loads(plan)[0]["Plan"]["Plan Rows"])


def _check(connection: Connection, url: str) -> None:
    ((server, has_tables),) = connection.rows(SQL.about)
    if server // 10_000 < OLDEST_SERVER:
        raise StoreError(
            f"{shown(url)} is PostgreSQL {server // 10_000}; "
            f"eventhub needs {OLDEST_SERVER} or newer. Upgrade the server."
        )
    version = connection.value(SQL.schema_version) if has_tables else None
    if version is None:
        raise SchemaMismatch(
            f"{shown(url)} has no tables of eventhub. Check the URL, or run `eventhub migrate` against it."
        )
    if version < NEEDED_SCHEMA:
        raise SchemaMismatch(
            f"{shown(url)} has tables of version {version}; version {NEEDED_SCHEMA} or newer is needed. "
            "Run `eventhub migrate` against this database."
        )
