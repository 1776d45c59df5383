"""Storing events in PostgreSQL: one statement for a whole batch; keys and lanes first, where they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from eventhub.core.lifecycle import State
from eventhub.errors import StoreBusy
from eventhub.store.batching import Answer
from eventhub.store.columns import Doubtful, PlainEvents, PublishedTogether, is_bare, kinds_in, shared_out
from eventhub.store.idempotency import Earlier, Keys, Scope, earlier
from eventhub.store.messages import dump_targets
from eventhub.store.queries import load_queries
from eventhub.store.values import NewEvent, Published, Route, lane_id

__all__ = [
    "SQL",
    "RouteRetired",
    "column",
    "is_plain",
    "lock_lanes",
    "publish_arriving",
    "publish_bare_one",
    "publish_calls",
    "publish_plain",
]

SQL = load_queries("eventhub.store.postgres")
TURNS: Final = 2
"""Of the loop, until a statement is on its way: one to begin it, one to send it."""
"""Ask anew for the numbers of routes, of which one turned out to be retired."""
MANY_KEYS: Final = 256
"""A transaction with more keys than this locks all there are: the server has room for some thousand locks only."""


class RouteRetired(Exception):
    """A route was retired since its number was learnt: nothing was stored."""


def is_plain(calls: Sequence[Sequence[NewEvent]]) -> bool:
    """Whether no event needs a key or a lane, so that a single statement does it all."""
    return all(
        event.idempotency_key is None and event.ordering_key is None for call in calls for event in kinds_in(call)
    )


async def publish_bare_one(
    connection: Any,
    event: NewEvent,
    route: int,
    now: datetime | None,
    tell: Callable[[Iterable[str]], list[str] | None],
) -> Published:
    """Store a single event that is a type and a payload."""
    queue = event.route.queue
    told = tell((queue,)) is not None
    rows = await connection.fetch(
        SQL.insert_one, route, event.type, event.payload, event.max_attempts, now, queue if told else None
    )
    if not rows:
        raise RouteRetired
    ((number, at, _),) = rows
    return Published(number, at, told=told)


async def publish_plain(
    connection: Any,
    calls: Sequence[Sequence[NewEvent]],
    routes: dict[Route, int],
    now: datetime | None,
    tell: Callable[[Iterable[str]], list[str] | None],
) -> list[Answer[Published]]:
    """Store events without keys or lanes: one statement, one round trip, one commit.

    ``tell`` chooses which of their queues hear of it with the commit.
    """
    events = calls[0] if len(calls) == 1 else [event for call in calls for event in call]
    published: Sequence[Published]
    if all(map(is_bare, kinds_in(events))):
        published = await _insert_plain(connection, events, routes, now, tell)
    else:
        unnumbered: list[tuple[int | None, NewEvent]] = [(None, event) for event in events]
        published = await _insert(connection, unnumbered, routes, set(), now)
    return shared_out(published, calls)


async def publish_calls(
    connection: Any,
    calls: Sequence[Sequence[NewEvent]],
    routes: dict[Route, int],
    now: datetime | None,
    *,
    shared: bool = False,
) -> list[Answer[Published]]:
    """Store every call whole, or refuse it whole when one of its keys stands for another event.

    Runs inside a transaction. Keys and lanes are locked in order before anything is decided, each in a statement of its
    own, so that what is decided rests on what others have committed. With ``shared`` the routes are locked already.
    """
    keys_held = broadcast_keys(event for call in calls for event in call)
    if len(keys_held) > MANY_KEYS:
        await connection.fetch(SQL.hold_all_keys)
    elif keys_held:
        await connection.fetch(SQL.hold_keys, keys_held)
    lanes = _lanes(event for call in calls for event in call)
    heads = await lock_lanes(connection, lanes)
    total = sum(len(call) for call in calls)  # ids after the lanes: the order of a key is the order of its ids
    keys = Keys(calls, [row[0] for row in await connection.fetch(SQL.take_ids, total)])
    if keys.first and not (await _take(connection, keys.first, keys.asked, now) and keys.each_once):
        taken = await _taken(connection, keys.first)
        lost = [scope for scope in keys.first if scope not in taken]
        known = await _earlier(connection, lost) if lost else {}
        if len(known) < len(lost):
            raise StoreBusy("An idempotency key became free while it was being used again. Try again.")
        keys.judge(known)
        dropped = keys.dropped(taken)
        if dropped:
            await connection.execute(SQL.drop_keys, *_columns(dropped))
            await _take(connection, keys.moved(taken), keys.asked, now)
    new = keys.to_store()
    stored: dict[int, Published] = {}
    if new:
        rows = await _insert(connection, new, routes, heads, now, shared=shared)
        stored = {published.id: published for published in rows}
    unused = lanes.keys() - _lanes(event for _, event in new).keys()
    if unused:
        await connection.execute(SQL.drop_lanes, list(unused))
    return keys.answers(stored)


async def _take(connection: Any, keys: dict[Scope, int], asked: dict[int, bytes], now: datetime | None) -> bool:
    """Take keys for events, those that are free; returns whether all were."""
    numbers = list(keys.values())
    digests = [asked[number] for number in numbers]
    status = await connection.execute(SQL.take_keys, *_columns(list(keys)), numbers, digests, now)
    return int(status.rpartition(" ")[2]) == len(keys)


async def _taken(connection: Any, keys: dict[Scope, int]) -> set[Scope]:
    """Of the keys, those that were taken for these events."""
    rows = await connection.fetch(SQL.taken_keys, *_columns(list(keys)), list(keys.values()))
    return {(row[0], row[1]) for row in rows}


async def _earlier(connection: Any, scopes: list[Scope]) -> Earlier:
    rows = await connection.fetch(SQL.keyed_events, *_columns(scopes))
    return {(row[0], row[1]): earlier(row[2:], lambda moment: moment) for row in rows}


def _columns(scopes: list[Scope]) -> tuple[list[str], list[str]]:
    return [queue for queue, _ in scopes], [key for _, key in scopes]


def _lanes(events: Iterable[NewEvent]) -> dict[int, tuple[str, str]]:
    """The ordering keys of events, by their numbers."""
    return {
        lane_id(event.route.queue, event.ordering_key): (event.route.queue, event.ordering_key)
        for event in events
        if event.ordering_key is not None and event.work and not event.completed
    }


def broadcast_keys(events: Iterable[NewEvent]) -> list[int]:
    """The ordering keys of broadcasts as numbers to lock, in order."""
    return sorted(
        {
            lane_id("broadcast", event.ordering_key)
            for event in events
            if event.broadcast and event.ordering_key is not None
        }
    )


async def lock_lanes(connection: Any, lanes: dict[int, tuple[str, str]]) -> set[int]:
    """Lock the ordering keys; returns those that have a head, which a new one has not."""
    if not lanes:
        return set()
    columns = (list(column) for column in zip(*lanes.values(), strict=True))
    new = {row[0] for row in await connection.fetch(SQL.lock_lanes, list(lanes), *columns, False)}
    old = list(lanes.keys() - new)
    return {row[0] for row in await connection.fetch(SQL.taken_lanes, old)} if old else set()


async def _insert_plain(
    connection: Any,
    events: Sequence[NewEvent],
    routes: dict[Route, int],
    now: datetime | None,
    tell: Callable[[Iterable[str]], list[str] | None],
) -> Sequence[Published]:
    """Of events that are a type and a payload only these are sent, and only their ids come back."""
    payloads = events.payloads if type(events) is PlainEvents else [event.payload for event in events]
    kinds = kinds_in(events)
    limits = [event.max_attempts for event in kinds]
    told = tell({event.route.queue for event in kinds})
    ((at, numbers, _),) = await connection.fetch(
        SQL.insert_plain,
        _numbers_of(kinds, routes),
        [event.type for event in kinds],
        "\n".join(payloads),
        column(limits),
        now,
        told,
        _each_once(kinds, routes),
    )
    if numbers is None:
        raise RouteRetired
    carried = told is not None
    if type(events) is PlainEvents:
        return PublishedTogether(numbers, at, told=carried)
    return [Published(number, at, False, False, carried) for number in numbers]


async def publish_arriving(
    connection: Any,
    events: PlainEvents,
    routes: dict[Route, int],
    now: datetime | None,
    tell: Callable[[Iterable[str]], list[str] | None],
) -> Sequence[Published]:
    """Store a large batch whose payloads are checked meanwhile: two statements of a transaction, the first of which the
    server works on while we check.
    """
    like, route = events.like, routes[events.like.route]
    laying = asyncio.ensure_future(connection.fetch(SQL.lay_out, len(events), route, like.max_attempts, now))
    try:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        payloads = "\n".join(events.payloads)
        ((at, numbers, as_text),) = await laying
    except BaseException as error:
        if not isinstance(error, Doubtful):
            laying.cancel()
        await asyncio.gather(laying, return_exceptions=True)  # until then the connection is in use
        raise
    if numbers is None:
        raise RouteRetired
    told = tell({like.route.queue})
    await connection.fetch(SQL.fill_in, as_text, route, like.type, payloads, now, told)
    return PublishedTogether(numbers, at, told=told is not None)


def _numbers_of(events: Sequence[NewEvent], routes: dict[Route, int]) -> list[int]:
    """The numbers of their routes; by identity, for hashing a route each time would cost more."""
    known = {id(event.route): event.route for event in events}
    of_route = {key: routes[route] for key, route in known.items()}
    return [of_route[id(event.route)] for event in events]


def _each_once(events: Sequence[NewEvent], routes: dict[Route, int]) -> list[int]:
    """The numbers of their routes, to be locked."""
    return list({routes[route] for route in {id(event.route): event.route for event in events}.values()})


async def _insert(
    connection: Any,
    numbered: list[tuple[int | None, NewEvent]] | list[tuple[int, NewEvent]],
    routes: dict[Route, int],
    heads: set[int],
    now: datetime | None,
    *,
    shared: bool = False,
) -> list[Published]:
    events = [event for _, event in numbered]
    placed = [
        _READY
        if e.work
        and e.ordering_key is None
        and e.delay is None
        and e.deliver_at is None
        and e.worker is None
        and not e.completed
        else _place(e, heads)
        for e in events
    ]
    rows = await connection.fetch(
        SQL.insert_events,
        column([number for number, _ in numbered]),
        _numbers_of(events, routes),
        [event.type for event in events],
        [event.payload for event in events],
        *(column(list(map(text, events))) for text in _TEXTS),
        column([lane for lane, _, _ in placed]),
        [state for _, state, _ in placed],
        column([event.deliver_at for event in events]),
        column([seconds for _, _, seconds in placed]),
        column([event.max_attempts for event in events]),
        column([event.worker if event.starts_leased else None for event in events]),
        column([event.park_when_dead or None for event in events]),
        now,
        column([event.broadcast or None for event in events]),
        column([None if event.targets is None else dump_targets(event.targets) for event in events]),
        column([event.publisher for event in events]),
        column([None if event.handlers is None else event.handlers.names for event in events]),
        column([None if event.handlers is None else event.handlers.owner for event in events]),
        [] if shared else _each_once(events, routes),
    )
    if not rows:
        raise RouteRetired
    return [Published(row[0], row[1], leased=event.starts_leased) for row, event in zip(rows, events, strict=True)]


_TEXTS = [attrgetter(name) for name in ("metadata", "tags", "title", "description", "ordering_key", "idempotency_key")]
_READY = (None, State.READY, None)


def column(values: list[Any]) -> list[Any] | None:
    """A column for ``unnest``; one that is empty throughout costs nothing."""
    return None if values.count(None) == len(values) else values


def _place(event: NewEvent, heads: set[int]) -> tuple[int | None, int | None, float | None]:
    """Where a new delivery starts: its lane, its state, and in how many seconds it is due or its lease ends."""
    seconds = None if event.delay is None else event.delay.total_seconds()
    if event.completed or not event.work:
        return None, None, seconds
    later = event.delay is not None or event.deliver_at is not None
    if event.ordering_key is not None:
        lane = lane_id(event.route.queue, event.ordering_key)
        if lane in heads:
            return lane, State.BEHIND, seconds
        heads.add(lane)
        return lane, State.WAITING if later else State.READY, seconds
    if later:
        return None, State.WAITING, seconds
    if event.starts_leased and event.lease is not None:
        return None, State.LEASED, event.lease.total_seconds()
    return None, State.READY, None
