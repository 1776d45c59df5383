"""apsw alone: one connection with our settings, in the calling thread."""

from __future__ import annotations

from array import array
from time import perf_counter, time_ns
from typing import Any

import apsw

from eventhub.bench.payloads import PAYLOAD_TEXT
from eventhub.bench.raw import Raw
from eventhub.bench.settings import TYPE
from eventhub.store.queries import load_queries
from eventhub.store.sqlite.connection import connect

__all__ = ["RawSqlite"]

SQL = load_queries("eventhub.bench.raw_sqlite")
WORKER = "raw"
LEASE = 60_000_000


class RawSqlite(Raw):
    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: apsw.Connection
        self._route: int

    async def open(self) -> None:
        self._connection = connect(self._path)
        self._connection.execute(SQL.add_route)
        self._route = int(self._connection.execute(SQL.find_route).get)

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
        now = time_ns() // 1000
        first = int(connection.execute(SQL.take_ids, (batch,)).get)
        numbers = range(first, first + batch)
        connection.executemany(SQL.insert_event, [(number, route, TYPE, PAYLOAD_TEXT, now) for number in numbers])
        connection.executemany(SQL.insert_delivery, [(number, route) for number in numbers])
        connection.execute(SQL.log_published, (first, first + batch - 1))
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
        rows = connection.execute(SQL.claim, (self._route, limit)).fetchall()
        ids: list[Any] = [row[0] for row in rows]
        connection.execute(SQL.lease, (WORKER, now + LEASE, _array(ids)))
        connection.execute(SQL.log_picked, (now, _array(ids)))
        connection.execute("COMMIT")
        return ids

    def _complete(self, ids: list[int]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SQL.log_completed, (time_ns() // 1000, _array(ids)))
        connection.execute(SQL.remove, (_array(ids),))
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


def _array(ids: list[int]) -> Any:
    return apsw.carray(array("q", ids))
