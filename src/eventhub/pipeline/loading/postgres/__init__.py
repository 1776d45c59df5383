"""Loading into PostgreSQL: copies into staging tables, or straight into tables where ids were reserved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from eventhub.pipeline.loading.rows import highest, moved_on
from eventhub.pipeline.loading.target import RouteName, Target
from eventhub.pipeline.source.postgres import PostgresDatabase
from eventhub.pipeline.source.postgres.connection import connected
from eventhub.store.ledger import Dataset
from eventhub.store.messages import HUB
from eventhub.store.queries import load_queries
from eventhub.store.values import lane_id

__all__ = ["PostgresTarget"]

SQL = load_queries("eventhub.pipeline.loading.postgres")
_ANALYZE: Final = {"events": SQL.analyze_events, "event_log": SQL.analyze_event_log}
_INSERT: Final = {"events": SQL.insert_events, "event_log": SQL.insert_event_log}
_EMPTY: Final = {"events": SQL.empty_events, "event_log": SQL.empty_event_log}


class PostgresTarget(Target):
    """One connection; the staging tables are its own."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._held = ExitStack()
        self._days: set[int] = set()
        self._next_id = self._next_entry = 0

    def __enter__(self) -> Self:
        PostgresDatabase(self.url).origin()  # says what is missing
        with ExitStack() as entering:  # what goes wrong already here is told in our words, too
            self._connection = entering.enter_context(connected(self.url, session=True))
            for statement in (SQL.stage_events, SQL.stage_event_log, SQL.stage_routes, SQL.stage_lanes):
                self._connection.run(statement)
            self._held = entering.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def routes(self, names: Sequence[RouteName]) -> list[int]:
        queues, tags, types = (list(column) for column in zip(*names, strict=True))
        columns = {"place": list(range(len(names))), "queue": queues, "tags": tags, "type": types}
        self._connection.write(pa.record_batch(columns), "loading_routes")
        self._connection.run(SQL.intern_routes)
        numbers = dict(self._connection.rows(SQL.find_routes))
        self._connection.run(SQL.empty_routes)
        return [numbers[place] for place in range(len(names))]

    def insert(self, dataset: Dataset, rows: pa.RecordBatch, *, copied: bool = False) -> int:
        if not rows.num_rows:
            return 0
        if dataset == "event_log":
            self._make_days(rows)
        self._pass_ids(dataset, rows)
        with self._transaction():
            self._connection.rows(SQL.alone)
            self._connection.write(rows, f"loading_{dataset}")
            self._connection.run(_ANALYZE[dataset])
            inserted = self._connection.run(_INSERT[dataset].format(copied="true" if copied else "false"))
            self._connection.run(_EMPTY[dataset])
        return inserted

    def pass_ids(self, last: int) -> None:
        self._moved(past_id=last)

    def next_entry(self) -> int:
        return int(self._connection.value(SQL.next_entry))

    def append(self, events: pa.RecordBatch, entries: pa.RecordBatch, *, ids: int) -> int:
        self._make_days(entries)
        first, first_entry = self._moved(ids=ids, entries=entries.num_rows)
        with self._transaction():  # another one: nobody waits for ids while rows are copied
            self._connection.write(moved_on(events, first), "events", schema="eventhub")
            self._connection.write(moved_on(entries, first, first_entry=first_entry), "event_log", schema="eventhub")
            self._bury(first, first + ids - 1)
        return first

    def _bury(self, first: int, last: int) -> None:
        self._connection.run(SQL.bury.format(first=first, last=last, hub=HUB))
        keys = self._connection.rows(SQL.dead_keys.format(first=first, last=last))
        if keys:
            queues, names = (list(column) for column in zip(*keys, strict=True))
            lanes = [lane_id(queue, name) for queue, name in keys]
            self._connection.write(pa.record_batch({"lane": lanes, "queue": queues, "key": names}), "loading_lanes")
            self._connection.run(SQL.set_lanes.format(first=first, last=last))
            self._connection.run(SQL.empty_lanes)

    def _make_days(self, rows: pa.RecordBatch) -> None:
        """A day whose partition is missing gets one before its rows come: later it could not."""
        days = pc.unique(rows.column("created_at").cast(pa.date32())).sort()
        for day in days:
            if day.value not in self._days:
                self._connection.rows(SQL.make_days.format(first=day.as_py().isoformat()))
                self._days.add(day.value)

    def _pass_ids(self, dataset: Dataset, rows: pa.RecordBatch) -> None:
        """Ids that are given out later are higher than all these."""
        if dataset == "events":
            last_id, last_entry = highest(rows, "id"), 0
        else:
            last_id, last_entry = max(highest(rows, "event_id"), highest(rows, "delivery_id")), highest(rows, "id")
        if last_id >= self._next_id or last_entry >= self._next_entry:
            self._moved(past_id=last_id, past_entry=last_entry)

    def _moved(self, *, ids: int = 0, entries: int = 0, past_id: int = 0, past_entry: int = 0) -> tuple[int, int]:
        """Move the sequences on; returns where they stood.

        Each in a transaction of its own: who publishes takes ids before entries, and a fan-out entries before ids, so
        that whoever held both would keep one of them waiting in a circle.
        """
        self._next_id, self._next_entry = self._connection.value(SQL.next_id), self._connection.value(SQL.next_entry)
        if not (ids or entries) and past_id < self._next_id and past_entry < self._next_entry:
            return self._next_id, self._next_entry
        with self._transaction():
            self._connection.run(SQL.hold_ids)
            first_id = self._connection.value(SQL.next_id)
            self._next_id = max(first_id + ids, past_id + 1)
            if self._next_id > first_id:
                self._connection.rows(SQL.set_ids.format(last=self._next_id - 1))
        with self._transaction():
            self._connection.run(SQL.hold_entries)
            first_entry = self._connection.value(SQL.next_entry)
            self._next_entry = max(first_entry + entries, past_entry + 1)
            if self._next_entry > first_entry:
                self._connection.rows(SQL.set_entries.format(last=self._next_entry - 1))
        return first_id, first_entry

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Whatever goes wrong inside ends the connection, and with it the transaction."""
        self._connection.run("BEGIN")
        yield
        self._connection.run("COMMIT")
