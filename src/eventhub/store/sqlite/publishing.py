"""Storing events in SQLite: ids in one run, rows in bulk, keys and lanes only where they are used.

Everything here runs on the writer's thread inside its transaction, so reading and then writing is safe.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence  # noqa: TC003
from datetime import timedelta
from typing import Any

import apsw

from eventhub.core.lifecycle import State
from eventhub.errors import IdempotencyConflict
from eventhub.store.batching import Answer  # noqa: TC001
from eventhub.store.queries import load_queries
from eventhub.store.rows import from_micros, micros
from eventhub.store.values import NewEvent, Published, Route, lane_id

__all__ = ["ids", "publish_calls", "route_number"]

SQL = load_queries("eventhub.store.sqlite")


def ids(values: Sequence[int]) -> Any:
    """Numbers for a statement, without a round through Python for each."""
    return apsw.carray(array("q", values))


def publish_calls(
    connection: apsw.Connection, calls: Sequence[Sequence[NewEvent]], routes: dict[Route, int], now: int
) -> list[Answer[Published]]:
    """Store every call whole, or refuse it whole when one of its keys stands for another event."""
    total = sum(len(call) for call in calls)
    first = int(connection.execute(SQL.take_ids, {"count": total}).get)
    created_at = from_micros(now)
    answers: list[Answer[Published]] = []
    to_store: list[tuple[int, NewEvent]] = []
    next_id = first
    for call in calls:
        numbered = list(zip(range(next_id, next_id + len(call)), call, strict=True))
        next_id += len(call)
        known: dict[int, Published] = {}
        if any(event.idempotency_key is not None for event in call):
            try:
                known = _take_keys(connection, numbered, now)
            except IdempotencyConflict as conflict:
                answers.append(conflict)
                continue
        to_store += [pair for pair in numbered if pair[0] not in known] if known else numbered
        answers.append(
            [
                known.get(number) or Published(number, created_at, leased=event.worker is not None)
                for number, event in numbered
            ]
            if known
            else [Published(number, created_at, leased=event.worker is not None) for number, event in numbered]
        )
    _insert(connection, to_store, routes, now)
    return answers


def _take_keys(connection: apsw.Connection, numbered: list[tuple[int, NewEvent]], now: int) -> dict[int, Published]:
    """Claim the keys of one call; returns the earlier events that some of them stand for."""
    known: dict[int, Published] = {}
    mine: dict[tuple[str, str], tuple[int, NewEvent]] = {}
    taken: list[tuple[str, str]] = []
    for number, event in numbered:
        if event.idempotency_key is None:
            continue
        scope = (event.route.queue, event.idempotency_key)
        first, earlier = mine.get(scope) or (None, None)
        if first is None:
            connection.execute(SQL.take_key, (*scope, number, now))
            if connection.changes():
                mine[scope] = (number, event)
                taken.append(scope)
                continue
            first, earlier, created_at = _keyed(connection, scope, event.route)
        else:
            created_at = now
        if earlier is None or not event.same_event(earlier):
            connection.executemany(SQL.drop_keys, taken)
            raise IdempotencyConflict(
                f"The idempotency key {scope[1]!r} belongs to event {first} already, and that event is different. "
                "Use a new key for a new event."
            )
        known[number] = Published(first, from_micros(created_at), duplicate=True)
    return known


def _keyed(connection: apsw.Connection, scope: tuple[str, str], route: Route) -> tuple[int, NewEvent | None, int]:
    row = connection.execute(SQL.keyed_events, {"scope": scope[0], "key": scope[1]}).fetchone()
    if row is None:  # the event was purged: its key still stands for it
        return 0, None, 0
    _, number, type_, payload, metadata, tags, title, description, ordering_key, created_at = row
    event = NewEvent(
        type=type_,
        payload=payload,
        route=route,
        metadata=metadata,
        tags=tags,
        title=title,
        description=description,
        ordering_key=ordering_key,
    )
    return number, event, created_at


def _insert(
    connection: apsw.Connection, numbered: list[tuple[int, NewEvent]], routes: dict[Route, int], now: int
) -> None:
    if not numbered:
        return
    heads = _open_lanes(connection, [event for _, event in numbered if event.ordering_key is not None])
    events: list[tuple[Any, ...]] = []
    deliveries: list[tuple[Any, ...]] = []
    log: list[tuple[Any, ...]] = []
    for number, event in numbered:
        route = routes.get(event.route) or route_number(connection, event.route)
        events.append(
            (
                number,
                route,
                event.type,
                event.payload,
                event.metadata,
                event.tags,
                event.title,
                event.description,
                event.ordering_key,
                event.idempotency_key,
                now,
            )
        )
        if event.completed:
            log.append((number, number, "COMPLETED", None, 0, None, None, None, None, now))
            continue
        lane, state, due = _place(event, heads, now)
        leased = state == State.LEASED
        if leased:
            log.append((number, number, "PICKED", event.worker, 1, 1, None, None, None, now))
        deliveries.append((number, lane, route, state, due, int(leased), event.max_attempts, event.worker))
    connection.executemany(SQL.insert_events, events)
    connection.executemany(SQL.insert_deliveries, deliveries)
    connection.execute(SQL.log_published, {"first": numbered[0][0], "last": numbered[-1][0]})
    if log:
        connection.executemany(SQL.write_log, log)


def _open_lanes(connection: apsw.Connection, ordered: list[NewEvent]) -> set[int]:
    """Make the ordering keys known; returns those that have a head."""
    if not ordered:
        return set()
    lanes = {
        lane_id(event.route.queue, event.ordering_key): (event.route.queue, event.ordering_key, event.park_when_dead)
        for event in ordered
        if event.ordering_key is not None
    }
    connection.executemany(SQL.lock_lanes, [(lane, *rest) for lane, rest in lanes.items()])
    return {lane for (lane,) in connection.execute(SQL.taken_lanes, (ids(list(lanes)),))}


def _place(event: NewEvent, heads: set[int], now: int) -> tuple[int | None, int, int | None]:
    """Where a new delivery starts: its lane, its state, and when it is due."""
    due = None
    if event.deliver_at is not None:
        due = micros(event.deliver_at)
    elif event.delay is not None:
        due = now + event.delay // timedelta(microseconds=1)
    later = due is not None and due > now
    if event.ordering_key is not None:
        lane = lane_id(event.route.queue, event.ordering_key)
        if lane in heads:
            return lane, State.BEHIND, due if later else None
        heads.add(lane)
        return lane, State.WAITING if later else State.READY, due if later else None
    if later:
        return None, State.WAITING, due
    if event.worker is not None and event.lease is not None:
        return None, State.LEASED, now + event.lease // timedelta(microseconds=1)
    return None, State.READY, None


def route_number(connection: apsw.Connection, route: Route) -> int:
    """The number of a route, made when it is new."""
    named = {"queue": route.queue, "tags": ",".join(route.tags), "priority": route.priority}
    found = connection.execute(SQL.find_route, named).get
    if found is None:
        connection.execute(SQL.intern_route, named)
        found = connection.execute(SQL.find_route, named).get
    return int(found)
