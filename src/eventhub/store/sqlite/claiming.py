"""Leasing deliveries in SQLite: read what is ready, oldest first, then take it; the write lock keeps others out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import apsw

from eventhub.store.rows import from_micros, to_claims
from eventhub.store.sqlite.publishing import SQL, ids
from eventhub.store.values import Claim, Wanted

__all__ = ["claim_chosen", "claim_one_by_one", "claim_queue"]


def claim_queue(connection: apsw.Connection, wanted: Wanted, now: int) -> list[Claim]:
    """Lease the oldest ready deliveries of a queue, those of the highest priority first."""
    by_priority: dict[int, list[int]] = {}
    for number, route_tags, priority in connection.execute(SQL.queue_routes, {"queue": wanted.queue}):
        if wanted.accepts(route_tags):
            by_priority.setdefault(priority, []).append(number)
    rows: list[tuple[Any, ...]] = []
    for routes in by_priority.values():
        left = wanted.limit - len(rows)
        if left <= 0:
            break
        if len(routes) == 1:
            rows += connection.execute(SQL.claim_route, {"route": routes[0], "limit": left})
        else:
            rows += connection.execute(SQL.claim_routes, {"routes": ids(routes), "limit": left})
    return _lease(connection, rows, wanted, now)


def claim_one_by_one(connection: apsw.Connection, wanted: Sequence[Wanted], now: int) -> list[list[Claim]]:
    """Several workers in one transaction."""
    return [claim_queue(connection, one, now) for one in wanted]


def claim_chosen(connection: apsw.Connection, chosen: Sequence[int], wanted: Wanted, now: int) -> list[Claim]:
    """Lease chosen deliveries, those of them that are ready."""
    return _lease(connection, list(connection.execute(SQL.claim_ids, {"ids": ids(chosen)})), wanted, now)


def _lease(connection: apsw.Connection, rows: list[tuple[Any, ...]], wanted: Wanted, now: int) -> list[Claim]:
    if not rows:
        return []
    due = now + wanted.lease // timedelta(microseconds=1)
    numbers = [row[0] for row in rows]
    named = {"worker": wanted.worker, "due": due, "max_attempts": wanted.max_attempts, "ids": ids(numbers)}
    connection.execute(SQL.lease, named)
    connection.execute(SQL.log_picked, {"now": now, "ids": ids(numbers)})
    if wanted.max_attempts is not None:
        rows = [(*row[:5], wanted.max_attempts, *row[6:]) for row in rows]
    return to_claims(rows, raised=1, now=from_micros(now), until=from_micros(due), time=from_micros)
