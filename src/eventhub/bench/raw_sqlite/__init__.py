"""apsw alone: one connection with our settings, in the calling thread."""

from __future__ import annotations

from time import perf_counter, time_ns
from typing import Any

import apsw

from eventhub.bench.payloads import PAYLOAD_TEXT
from eventhub.bench.raw import Raw
from eventhub.bench.settings import TYPE
from eventhub.store.queries import load_queries
from eventhub.store.sqlite import publishing
from eventhub.store.sqlite.connection import connect

__all__ = ["RawSqlite"]

SQL = load_queries("eventhub.bench.raw_sqlite")
STORE = publishing.SQL
"""Storing, claiming and completing are the store's own statements: the same rows and arrays, with nothing around."""
WORKER = "raw"
LEASE = 60_000_000


class RawSqlite(Raw):
    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: apsw.Connection
        self._route: int

    async def open(self) -> None:
        self._connection = connect(self._path)
        self._connection.execute(SQL.add_route, (TYPE,))
        self._route = int(self._connection.execute(SQL.find_route, (TYPE,)).get)

    async def close(self) -> None:
        self._connection.close()

    async def publish(self, count: int, *, batch: int, connections: int) -> float:
        if connections != 1:
            raise ValueError(f"SQLite has one writer at a time, so {connections} connections would only wait.")
        started = perf_counter()
        for _ in range(0, count, batch):
            self._publish(batch)
        return perf_counter() - started

    def _publish(self, batch: int) -> None:
        connection, route = self._connection, self._route
        connection.execute("BEGIN IMMEDIATE")
        first = int(connection.execute(STORE.take_ids, {"count": batch}).get)
        events = {"first": first, "route": route, "type": TYPE, "now": time_ns() // 1000}
        payloads = apsw.carray((PAYLOAD_TEXT,) * batch)
        connection.execute(STORE.insert_same_events, {**events, "payloads": payloads})
        span = {"first": first, "last": first + batch - 1}
        connection.execute(
            STORE.insert_bare_deliveries, {**span, "max_attempts": None, "handlers": None, "owner": None}
        )
        connection.execute(STORE.log_published, span)
        connection.execute("COMMIT")

    async def drain(self, count: int, *, batch: int, seconds: float | None = None) -> tuple[int, float]:
        done = 0
        started = perf_counter()
        while done < count and (seconds is None or perf_counter() - started < seconds):
            ids = self._claim(min(batch, count - done))
            if not ids:
                break
            self._complete(ids)
            done += len(ids)
        return done, perf_counter() - started

    def _claim(self, limit: int) -> list[int]:
        connection, now = self._connection, time_ns() // 1000
        connection.execute("BEGIN IMMEDIATE")
        rows = connection.execute(STORE.claim_route, {"route": self._route, "limit": limit}).fetchall()
        ids: list[Any] = [row[0] for row in rows]
        lease = {"worker": WORKER, "due": now + LEASE, "max_attempts": None, "claimed_by": None}
        connection.execute(STORE.lease, {**lease, "ids": publishing.ids(ids)})
        connection.execute(STORE.log_picked, {"now": now, "ids": publishing.ids(ids)})
        connection.execute("COMMIT")
        return ids

    def _complete(self, ids: list[int]) -> None:
        connection, done, ones = self._connection, publishing.ids(ids), publishing.ids([1] * len(ids))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(STORE.count_current, {"ids": done, "fences": ones}).fetchall()
        connection.execute(STORE.log_completed, {"ids": done, "took": ones, "now": time_ns() // 1000})
        connection.execute(STORE.remove, {"ids": done})
        connection.execute(STORE.drop_results, {"ids": done})
        connection.execute("COMMIT")

    async def latency(self, *, notified: bool) -> float | None:
        if notified:
            return None  # SQLite cannot tell another process anything
        self._publish(1)
        committed = perf_counter()
        ids = self._claim(1)
        took = perf_counter() - committed
        self._complete(ids)
        return took

    async def dead_page(self, limit: int, offset: int) -> float:
        started = perf_counter()
        self._connection.execute(SQL.dead_page, (limit, offset)).fetchall()
        self._connection.execute(SQL.dead_total).fetchall()
        return perf_counter() - started
