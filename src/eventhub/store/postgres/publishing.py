"""Storing events in PostgreSQL: one statement for a whole batch; keys and lanes are taken first, where they are used."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003
from datetime import datetime  # noqa: TC003
from typing import Any

from eventhub.core.lifecycle import State
from eventhub.errors import IdempotencyConflict
from eventhub.store.batching import Answer  # noqa: TC001
from eventhub.store.queries import load_queries
from eventhub.store.values import NewEvent, Published, Route, lane_id

__all__ = ["SQL", "is_plain", "publish_calls", "publish_plain"]

SQL = load_queries("eventhub.store.postgres")
Scope = tuple[str, str]


def is_plain(calls: Sequence[Sequence[NewEvent]]) -> bool:
    """Whether no event needs a key or a lane, so that a single statement does it all."""
    return all(event.idempotency_key is None and event.ordering_key is None for call in calls for event in call)


async def publish_plain(
    connection: Any, calls: Sequence[Sequence[NewEvent]], routes: dict[Route, int], now: datetime | None
) -> list[Answer[Published]]:
    """Store events without keys or lanes: one statement, one round trip, one commit."""
    events = [event for call in calls for event in call]
    stored = iter(await _insert(connection, events, None, routes, set(), now))
    return [[next(stored) for _ in call] for call in calls]


async def publish_calls(
    connection: Any, calls: Sequence[Sequence[NewEvent]], routes: dict[Route, int], now: datetime | None
) -> list[Answer[Published]]:
    """Store every call whole, or refuse it whole when one of its keys stands for another event.

    Runs inside a transaction. Keys and lanes are locked in order before anything is decided, each in a statement of its
    own, so that what is decided rests on what others have committed.
    """
    total = sum(len(call) for call in calls)
    numbers = iter([row[0] for row in await connection.fetch(SQL.take_ids, total)])
    numbered = [[(next(numbers), event) for event in call] for call in calls]
    known, conflicts = await _take_keys(connection, numbered, now)
    to_store = [
        pair
        for index, call in enumerate(numbered)
        if index not in conflicts
        for pair in call
        if pair[0] not in known
    ]
    stored: dict[int, Published] = {}
    if to_store:
        heads = await _lock_lanes(connection, [event for _, event in to_store])
        rows = await _insert(
            connection, [event for _, event in to_store], [n for n, _ in to_store], routes, heads, now
        )
        stored = {published.id: published for published in rows}
    answers: list[Answer[Published]] = []
    for index, call in enumerate(numbered):
        if index in conflicts:
            answers.append(conflicts[index])
            continue
        answers.append([_answer(number, known, stored) for number, _ in call])
    return answers


def _answer(number: int, known: dict[int, Published | int], stored: dict[int, Published]) -> Published:
    found = known.get(number)
    if found is None:
        return stored[number]
    if isinstance(found, int):  # the same key twice in one batch: the first of them
        return Published(found, stored[found].created_at, duplicate=True)
    return found


async def _take_keys(
    connection: Any, numbered: list[list[tuple[int, NewEvent]]], now: datetime | None
) -> tuple[dict[int, Published | int], dict[int, IdempotencyConflict]]:
    """Claim keys; returns the earlier events that some stand for, and the calls that must be refused."""
    known: dict[int, Published | int] = {}
    conflicts: dict[int, IdempotencyConflict] = {}
    first: dict[Scope, tuple[int, NewEvent]] = {}
    for call in numbered:
        for number, event in call:
            if event.idempotency_key is not None:
                first.setdefault((event.route.queue, event.idempotency_key), (number, event))
    if not first:
        return known, conflicts
    scopes = list(first)
    won = {
        row[0]
        for row in await connection.fetch(
            SQL.take_keys, [s for s, _ in scopes], [k for _, k in scopes], [first[s][0] for s in scopes], now
        )
    }
    lost = [scope for scope in scopes if first[scope][0] not in won]
    earlier = await _earlier(connection, lost) if lost else {}
    for index, call in enumerate(numbered):
        for number, event in call:
            if event.idempotency_key is None:
                continue
            scope = (event.route.queue, event.idempotency_key)
            mine, mine_event = first[scope]
            if mine in won:
                if number != mine:
                    known[number] = mine
                    if not event.same_event(mine_event):
                        conflicts[index] = _conflict(scope[1], mine)
                continue
            published, event_then = earlier.get(scope, (None, None))
            if published is None or event_then is None or not event.same_event(event_then):
                conflicts[index] = _conflict(scope[1], published.id if published else None)
            else:
                known[number] = published
    await _give_back(connection, numbered, conflicts, known, first, won)
    return known, conflicts


async def _give_back(
    connection: Any,
    numbered: list[list[tuple[int, NewEvent]]],
    conflicts: dict[int, IdempotencyConflict],
    known: dict[int, Published | int],
    first: dict[Scope, tuple[int, NewEvent]],
    won: set[int],
) -> None:
    """Refused calls give back their keys; whoever relied on such a key within this batch is refused too."""
    refused = {number for index in conflicts for number, _ in numbered[index]}
    for index, call in enumerate(numbered):
        for number, event in call:
            if known.get(number) in refused and index not in conflicts and event.idempotency_key is not None:
                conflicts[index] = _conflict(event.idempotency_key, None)
                refused |= {n for n, _ in call}
    dropped = [scope for scope, (number, _) in first.items() if number in won and number in refused]
    if dropped:
        await connection.execute(
            SQL.drop_keys, [first[s][0] for s in dropped], [s for s, _ in dropped], [k for _, k in dropped]
        )


async def _earlier(connection: Any, scopes: list[Scope]) -> dict[Scope, tuple[Published, NewEvent]]:
    rows = await connection.fetch(SQL.keyed_events, [s for s, _ in scopes], [k for _, k in scopes])
    found = {}
    for scope, key, number, type_, payload, metadata, tags, title, description, ordering_key, created_at in rows:
        event = NewEvent(
            type=type_,
            payload=payload,
            route=Route(scope),
            metadata=metadata,
            tags=tags,
            title=title,
            description=description,
            ordering_key=ordering_key,
        )
        found[(scope, key)] = (Published(number, created_at, duplicate=True), event)
    return found


def _conflict(key: str, event_id: int | None) -> IdempotencyConflict:
    owner = f"event {event_id}" if event_id else "another event"
    return IdempotencyConflict(
        f"The idempotency key {key!r} belongs to {owner} already, and that event is different. "
        "Use a new key for a new event."
    )


async def _lock_lanes(connection: Any, events: list[NewEvent]) -> set[int]:
    """Lock the ordering keys; returns those that have a head."""
    lanes = {
        lane_id(event.route.queue, event.ordering_key): (event.route.queue, event.ordering_key, event.park_when_dead)
        for event in events
        if event.ordering_key is not None
    }
    if not lanes:
        return set()
    columns = list(zip(*lanes.values(), strict=True))
    await connection.execute(SQL.lock_lanes, list(lanes), *(list(column) for column in columns))
    return {row[0] for row in await connection.fetch(SQL.taken_lanes, list(lanes))}


async def _insert(
    connection: Any,
    events: list[NewEvent],
    numbers: list[int] | None,
    routes: dict[Route, int],
    heads: set[int],
    now: datetime | None,
) -> list[Published]:
    placed = [_place(event, heads) for event in events]
    rows = await connection.fetch(
        SQL.insert_events,
        numbers,
        [routes[event.route] for event in events],
        [event.type for event in events],
        [event.payload for event in events],
        *(_column([getattr(event, name) for event in events]) for name in _TEXTS),
        _column([lane for lane, _, _ in placed]),
        [state for _, state, _ in placed],
        _column([event.deliver_at for event in events]),
        _column([seconds for _, _, seconds in placed]),
        _column([event.max_attempts for event in events]),
        _column([event.worker for event in events]),
        now,
    )
    return [
        Published(row[0], row[1], leased=event.worker is not None) for row, event in zip(rows, events, strict=True)
    ]


_TEXTS = ("metadata", "tags", "title", "description", "ordering_key", "idempotency_key")


def _column(values: list[Any]) -> list[Any] | None:
    """A column for ``unnest``; one that is empty throughout costs nothing."""
    return values if any(value is not None for value in values) else None


def _place(event: NewEvent, heads: set[int]) -> tuple[int | None, int | None, float | None]:
    """Where a new delivery starts: its lane, its state, and in how many seconds it is due or its lease ends."""
    if event.completed:
        return None, None, None
    seconds = None if event.delay is None else event.delay.total_seconds()
    later = event.delay is not None or event.deliver_at is not None
    if event.ordering_key is not None:
        lane = lane_id(event.route.queue, event.ordering_key)
        if lane in heads:
            return lane, State.BEHIND, seconds
        heads.add(lane)
        return lane, State.WAITING if later else State.READY, seconds
    if later:
        return None, State.WAITING, seconds
    if event.worker is not None and event.lease is not None:
        return None, State.LEASED, event.lease.total_seconds()
    return None, State.READY, None
