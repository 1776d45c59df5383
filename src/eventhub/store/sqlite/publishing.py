"""Storing events in SQLite: ids in one run, rows in bulk, keys and lanes only where they are used.

Everything here runs on the writer's connection inside its transaction, so reading and then writing is safe.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import apsw

from eventhub.core.lifecycle import State
from eventhub.store.batching import Answer
from eventhub.store.columns import PlainEvents, PublishedTogether, kinds_in, shared_out
from eventhub.store.idempotency import Earlier, Keys, Scope, earlier
from eventhub.store.messages import dump_targets
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
    if all(event.idempotency_key is None for call in calls for event in kinds_in(call)):
        events = calls[0] if len(calls) == 1 else [event for call in calls for event in call]
        if type(events) is PlainEvents:
            _insert_plain(connection, first, events, _route_numbers(connection, [events.like], routes, now), now)
            return [PublishedTogether(range(first, first + total), created_at)]
        numbered = list(zip(range(first, first + total), events, strict=True))
        _insert(connection, numbered, routes, now)
        stored = [Published(number, created_at, leased=event.starts_leased) for number, event in numbered]
        return shared_out(stored, calls)
    keys = Keys(calls, range(first, first + total))
    taken = _take(connection, keys.first, keys.asked, now)
    keys.judge(_earlier(connection, [scope for scope in keys.first if scope not in taken]))
    connection.executemany(SQL.drop_keys, keys.dropped(taken))
    _take(connection, keys.moved(taken), keys.asked, now)
    new = keys.to_store()
    _insert(connection, new, routes, now)
    return keys.answers({number: Published(number, created_at, leased=event.starts_leased) for number, event in new})


def _take(connection: apsw.Connection, keys: dict[Scope, int], asked: dict[int, bytes], now: int) -> set[Scope]:
    """Take keys for events; returns those that were free."""
    wanted = [(*scope, number, asked[number], now) for scope, number in keys.items()]
    rows = connection.executemany(SQL.take_key, wanted)
    return {(scope, key) for scope, key in rows}


def _earlier(connection: apsw.Connection, scopes: list[Scope]) -> Earlier:
    return {
        scope: earlier(row, from_micros)
        for scope in scopes
        for row in connection.execute(SQL.keyed_events, {"scope": scope[0], "key": scope[1]})
    }


def _insert(
    connection: apsw.Connection, numbered: list[tuple[int, NewEvent]], routes: dict[Route, int], now: int
) -> None:
    if not numbered:
        return
    span = {"first": numbered[0][0], "last": numbered[-1][0]}
    of_route = _route_numbers(connection, [event for _, event in numbered], routes, now)
    if _is_bare(numbered):
        bare = [(number, of_route[id(e.route)], e.type, e.payload, e.metadata, now) for number, e in numbered]
        connection.executemany(SQL.insert_bare_events, bare)
        _hand_out_bare(connection, span, numbered[0][1])
        return
    heads = _open_lanes(connection, [event for _, event in numbered if event.work and not event.completed])
    events: list[tuple[Any, ...]] = []
    deliveries: list[tuple[Any, ...]] = []
    markers: list[tuple[Any, ...]] = []
    log: list[tuple[Any, ...]] = []
    for number, event in numbered:
        route = of_route[id(event.route)]
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
                event.publisher,
                None if event.deliver_at is None else micros(event.deliver_at),
            )
        )
        if event.broadcast:
            targets = None if event.targets is None else dump_targets(event.targets)
            markers.append((number, _due(event, now), targets, not event.work))
        elif event.completed:
            log.append((number, number, "COMPLETED", None, 0, None, None, None, None, now))
        if event.completed or not event.work:
            continue
        lane, state, due = _place(event, heads, now)
        leased = state == State.LEASED
        if leased:
            log.append((number, number, "PICKED", event.worker, 1, 1, None, None, None, now))
        worker = event.worker if leased else None
        handlers, owner = _handlers(event)
        deliveries.append(
            (number, lane, route, state, due, int(leased), event.max_attempts, worker, event.park_when_dead, handlers,
             owner)
        )  # fmt: skip
    connection.executemany(SQL.insert_events, events)
    connection.executemany(SQL.insert_deliveries, deliveries)
    connection.executemany(SQL.insert_markers, markers)
    connection.execute(SQL.log_published, span)
    if log:
        connection.executemany(SQL.write_log, log)


def _insert_plain(
    connection: apsw.Connection, first: int, events: PlainEvents, of_route: dict[int, int], now: int
) -> None:
    like = events.like
    same = {"first": first, "route": of_route[id(like.route)], "type": like.type, "now": now}
    connection.execute(SQL.insert_same_events, {**same, "payloads": apsw.carray(tuple(events.payloads))})
    _hand_out_bare(connection, {"first": first, "last": first + len(events) - 1}, like)


def _hand_out_bare(connection: apsw.Connection, span: dict[str, int], like: NewEvent) -> None:
    handlers, owner = _handlers(like)
    same = {"max_attempts": like.max_attempts, "handlers": handlers, "owner": owner}
    connection.execute(SQL.insert_bare_deliveries, {**span, **same})
    connection.execute(SQL.log_published, span)


def _handlers(event: NewEvent) -> tuple[str | None, str | None]:
    """The handlers that it needs, and its owner."""
    return (None, None) if event.handlers is None else (event.handlers.names, event.handlers.owner)


def _route_numbers(
    connection: apsw.Connection, events: Iterable[NewEvent], routes: dict[Route, int], now: int
) -> dict[int, int]:
    """Numbers by the identity of the route: hashing a route for each event would cost more."""
    distinct = {id(event.route): event.route for event in events}
    return {key: _good_number(connection, route, routes.get(route), now) for key, route in distinct.items()}


def _good_number(connection: apsw.Connection, route: Route, known: int | None, now: int) -> int:
    if known is not None and connection.execute(SQL.hold_routes, (known,)).get:
        return known
    return route_number(connection, route, now)


def _is_bare(numbered: list[tuple[int, NewEvent]]) -> bool:
    """Whether all are plain work, ready at once: then most of the rows are made inside the database."""
    limit, handlers = numbered[0][1].max_attempts, numbered[0][1].handlers
    return all(
        e.ordering_key is None
        and e.idempotency_key is None
        and e.tags is None
        and e.delay is None
        and e.deliver_at is None
        and e.worker is None
        and e.title is None
        and e.description is None
        and e.publisher is None
        and e.work
        and not e.broadcast
        and not e.completed
        and e.max_attempts == limit
        and e.handlers is handlers
        for _, e in numbered
    )


def _open_lanes(connection: apsw.Connection, events: list[NewEvent]) -> set[int]:
    """Make the ordering keys known; returns those that have a head."""
    lanes = {
        lane_id(event.route.queue, event.ordering_key): (event.route.queue, event.ordering_key)
        for event in events
        if event.ordering_key is not None
    }
    if not lanes:
        return set()
    connection.executemany(SQL.lock_lanes, [(lane, *rest) for lane, rest in lanes.items()])
    return {lane for (lane,) in connection.execute(SQL.taken_lanes, (ids(list(lanes)),))}


def _place(event: NewEvent, heads: set[int], now: int) -> tuple[int | None, int, int | None]:
    """Where a new delivery starts: its lane, its state, and when it is due."""
    due = _due(event, now)
    if event.ordering_key is not None:
        lane = lane_id(event.route.queue, event.ordering_key)
        if lane in heads:
            return lane, State.BEHIND, due
        heads.add(lane)
        return lane, State.READY if due is None else State.WAITING, due
    if due is not None:
        return None, State.WAITING, due
    if event.starts_leased and event.lease is not None:
        return None, State.LEASED, now + event.lease // timedelta(microseconds=1)
    return None, State.READY, None


def _due(event: NewEvent, now: int) -> int | None:
    """When its deliveries are due, if that is later than now."""
    if event.deliver_at is not None:
        due = micros(event.deliver_at)
    elif event.delay is not None:
        due = now + event.delay // timedelta(microseconds=1)
    else:
        return None
    return due if due > now else None


def route_number(connection: apsw.Connection, route: Route, now: int) -> int:
    """The number of a route, which is made, or comes back, when it must."""
    named = {
        "queue": route.queue,
        "tags": ",".join(route.tags),
        "priority": route.priority,
        "type": route.type,
        "now": now,
    }
    found = connection.execute(SQL.find_route, named).get
    if found is None:
        connection.execute(SQL.intern_route, named)
        found = connection.execute(SQL.find_route, named).get
    return int(found)
