"""Leasing deliveries in SQLite: read what is ready, oldest first, then take it; the write lock keeps others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import apsw

from eventhub.store.claims import Claim, Wanted
from eventhub.store.routes import KnownRoute, KnownRoutes, by_priority
from eventhub.store.rows import from_micros, to_claims
from eventhub.store.sqlite.publishing import SQL, ids

__all__ = ["claim_chosen", "claim_one_by_one"]

LEAST_OF_EACH = 16
ROUTE = 17
"""The column that says whose row it is."""


def _claim_queue(connection: apsw.Connection, wanted: Wanted, fitting: list[list[int]], now: int) -> list[Claim]:
    """Lease the oldest ready deliveries of a queue, those of the highest priority first."""
    rows: list[tuple[Any, ...]] = []
    for routes in fitting:
        left = wanted.limit - len(rows)
        if left <= 0:
            break
        if len(routes) == 1:
            rows += connection.execute(SQL.claim_route, {"route": routes[0], "limit": left})
        else:
            rows += _oldest(connection, routes, left)
    return _lease(connection, rows, wanted, now)


def _oldest(connection: apsw.Connection, routes: list[int], limit: int) -> list[tuple[Any, ...]]:
    """The oldest of several routes.

    Of each route so many are read as would do if all had about as much, and more only if one of them turns out to have
    had more to give: with many routes, most of ``limit`` from each would be read in vain.
    """
    each = min(limit, max(LEAST_OF_EACH, 2 * limit // len(routes)))
    while True:
        rows = list(connection.execute(SQL.claim_routes, {"routes": ids(routes), "limit": limit, "each": each}))
        given = Counter(row[ROUTE] for row in rows)
        if len(rows) == limit:
            del given[rows[-1][ROUTE]]  # whatever else this one has is younger than all of them
        if each == limit or each not in given.values():
            return rows
        each = min(limit, 4 * each)  # one has given all it was asked for: its next may be older than rows of others


def claim_one_by_one(
    connection: apsw.Connection, wanted: Sequence[Wanted], known: KnownRoutes, now: int
) -> tuple[list[list[Claim]], list[KnownRoute]]:
    """Several workers in one transaction; also the routes that it saw and that were not known before."""
    learnt = [KnownRoute(*row) for row in connection.execute(SQL.new_routes, {"after": known.last})]
    news = KnownRoutes()
    news.learn(learnt)
    claims = []
    for one in wanted:
        asked = one.queue, one.tags, one.types
        fitting = by_priority(known.find(*asked) + news.find(*asked)) if learnt else known.choose(*asked)
        claims.append(_claim_queue(connection, one, fitting, now))
    return claims, learnt


def claim_chosen(connection: apsw.Connection, chosen: Sequence[int], wanted: Wanted, now: int) -> list[Claim]:
    """Lease chosen deliveries, those of them that are ready."""
    rows = list(connection.execute(SQL.claim_ids, {"ids": ids(chosen)}))
    if rows:
        connection.execute(SQL.own, {"worker": wanted.worker, "ids": ids([row[0] for row in rows])})
    return _lease(connection, rows, wanted, now)


def _lease(connection: apsw.Connection, rows: list[tuple[Any, ...]], wanted: Wanted, now: int) -> list[Claim]:
    if not rows:
        return []
    due = now + wanted.lease // timedelta(microseconds=1)
    numbers = [row[0] for row in rows]
    named = {"worker": wanted.worker, "due": due, "max_attempts": wanted.max_attempts, "ids": ids(numbers)}
    named["claimed_by"] = wanted.claimed_by
    connection.execute(SQL.lease, named)
    connection.execute(SQL.log_picked, {"now": now, "ids": ids(numbers)})
    if wanted.max_attempts is not None:
        rows = [(*row[:5], wanted.max_attempts, *row[6:]) for row in rows]
    return to_claims(rows, raised=1, queue=wanted.queue, now=from_micros(now), until=from_micros(due), time=from_micros)
