"""Questions to SQLite, on the reader's connection; lists choose their routes first, in the same transaction."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import apsw

from eventhub.core.events import DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.store.contract import Store
from eventhub.store.reading import floors
from eventhub.store.routes import KnownRoutes, others, to_types
from eventhub.store.rows import (
    from_micros,
    queue_stats,
    split_tags,
    to_dead,
    to_key,
    to_log,
    to_orphan,
    to_queued,
    to_tag_sets,
    to_worker,
)
from eventhub.store.snapshots import SnapshotTable
from eventhub.store.sqlite import settling
from eventhub.store.sqlite.connection import GET_VERSION, clock
from eventhub.store.sqlite.publishing import SQL, ids
from eventhub.store.sqlite.thread import ConnectionThread
from eventhub.store.values import ApiKey, Current, DeadPage, EventFilter, Orphan, QueueStats, WorkerSeen

__all__ = ["SqliteReading"]

_MICROSECOND = timedelta(microseconds=1)
_STATS = ("count_open", "count_dead", "count_events", "ages", "attempts", "count_results", "recent_ends")
# By how much is given: nothing, routes, or routes and a type.
_PENDING_LISTS = (SQL.events_pending, SQL.events_pending_routed, SQL.events_pending_typed)
_COUNTS = (SQL.count_recent, SQL.count_routed, SQL.count_typed)
_NO_END = 2**63 - 1
_SNAPSHOTS: dict[SnapshotTable, str] = {
    "events": SQL.snapshot_events,
    "log": SQL.snapshot_log,
    "deliveries": SQL.snapshot_deliveries,
    "dead_letters": SQL.snapshot_dead_letters,
    "markers": SQL.snapshot_markers,
}


class SqliteReading(Store):
    """The reading half of the SQLite store."""

    _path: str
    _synchronous: str
    _reader: ConnectionThread
    _known: KnownRoutes
    _writer: ConnectionThread

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...

    # ------------------------------------------------------------- the work

    async def next_due(self, *, now: datetime | None = None) -> float | None:
        ((due,),) = await self._read(SQL.next_due)
        return None if due is None else max(0.0, (due - clock(now)) / 1e6)

    async def ready_routes(
        self, queue: str, *, most: int = 1, tags: Iterable[str] | None = None
    ) -> list[tuple[str, ...]]:
        known = self._known
        known.learn(await self._read(SQL.new_routes, after=known.last))
        routes = [route.id for route in known.find(queue, tags)]
        if not routes:
            return []
        return to_tag_sets(await self._read(SQL.ready_routes, routes=ids(routes), most=most), known, most)

    async def ready_types(self, queue: str, *, unless: frozenset[str] = frozenset()) -> list[tuple[str, int]]:
        known = self._known
        known.learn(await self._read(SQL.new_routes, after=known.last))
        routes = others(known.find(queue, None), unless)
        return to_types(await self._read(SQL.ready_types, routes=ids(routes)), known) if routes else []

    async def current(self, ids: Sequence[int]) -> dict[int, Current]:
        await self.open()
        if not ids:
            return {}
        return await self._reader.run(lambda connection: settling.current_of(connection, ids))

    async def open_count(self, limit: int) -> int:
        ((count,),) = await self._read(SQL.open_count, limit=limit)
        return int(count)

    async def orphans(
        self, queue: str, *, silent: timedelta, limit: int = 100, now: datetime | None = None
    ) -> list[Orphan]:
        before = clock(now) - silent // _MICROSECOND
        rows = await self._read(SQL.orphans, queue=queue, before=before, limit=limit)
        return [to_orphan(row, from_micros) for row in rows]

    async def count_orphans(self, queue: str, *, silent: timedelta, limit: int, now: datetime | None = None) -> int:
        before = clock(now) - silent // _MICROSECOND
        ((count,),) = await self._read(SQL.count_orphans, queue=queue, before=before, limit=limit)
        return int(count)

    async def workers(self, *queues: str, limit: int | None = None, now: datetime | None = None) -> list[WorkerSeen]:
        rows = await self._read(SQL.workers, queues=json.dumps(queues), now=clock(now), limit=limit)
        return [to_worker(row, from_micros) for row in rows]

    async def count_workers(self, *queues: str) -> int:
        ((count,),) = await self._read(SQL.count_workers, queues=json.dumps(queues))
        return int(count)

    async def _queues_of_workers(self) -> list[str]:
        return [row[0] for row in await self._read(SQL.queues_of_workers)]

    # ----------------------------------------------------------- the events

    async def event(self, event_id: int) -> QueuedEvent | None:
        rows = await self._read(SQL.event, id=event_id)
        return to_queued(rows[0], from_micros, published_by=rows[0][21]) if rows else None

    async def event_tags(self, event_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        rows = await self._read(SQL.event_tags, ids=ids(event_ids)) if event_ids else []
        return {number: split_tags(tags) for number, tags in rows}

    async def _events(self, wanted: EventFilter) -> list[QueuedEvent]:
        await self.open()
        rows = await self._reader.run(lambda connection: _list(connection, wanted))
        return [to_queued(row, from_micros) for row in rows]

    async def count_events(self, wanted: EventFilter) -> int:
        await self.open()
        return await self._reader.run(lambda connection: _count(connection, wanted))

    async def log(self, event_id: int) -> list[LogEntry]:
        return [to_log(row, from_micros) for row in await self._read(SQL.log, event_id=event_id)]

    async def stats(self, queue: str | None = None) -> list[QueueStats]:
        at = clock()
        counts = {
            name: await self._read(getattr(SQL, name), **({"now": at} if name == "ages" else {})) for name in _STATS
        }
        return queue_stats(counts, queue)  # type: ignore[arg-type]

    async def dead(self, *, queue: str | None = None, offset: int = 0, limit: int = 100) -> DeadPage:
        rows = await self._read(SQL.dead_page, queue=queue, offset=offset, limit=limit)
        ((total,),) = await self._read(SQL.dead_total, queue=queue)
        return DeadPage([to_dead(row, from_micros) for row in rows], total)

    async def dead_event(self, event_id: int) -> DeadEvent | None:
        rows = await self._read(SQL.dead_event, event_id=event_id)
        return to_dead(rows[0], from_micros) if rows else None

    async def handler_results(self, event_ids: Sequence[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
        found: dict[int, dict[str, tuple[str, str | None]]] = {}
        if event_ids:
            for event_id, handler, kind, message in await self._read(SQL.handler_results, ids=ids(event_ids)):
                found.setdefault(event_id, {})[handler] = (kind, message)
        return found

    async def is_guarded(self, event_id: int, step: str) -> bool:
        return bool(await self._read(SQL.is_guarded, event_id=event_id, step=step))

    # ------------------------------------------------------------ everything

    async def last_event(self) -> int:
        ((number,),) = await self._read(SQL.last_event)
        return int(number)

    async def logged_from(self, first: int) -> int | None:
        ((number,),) = await self._read(SQL.logged_from, first=first)
        return None if number is None else int(number)

    async def snapshot(self, table: SnapshotTable, first: int, last: int) -> list[tuple[Any, ...]]:
        return await self._read(_SNAPSHOTS[table], first=first, last=last)

    # ------------------------------------------------------------- API keys

    async def keys(self) -> list[ApiKey]:
        return [to_key(row, from_micros) for row in await self._read(SQL.keys)]

    async def key(self, key_id: str) -> ApiKey | None:
        rows = await self._read(SQL.key, id=key_id)
        return to_key(rows[0], from_micros) if rows else None

    async def has_keys(self) -> bool:
        return bool(await self._read(SQL.has_keys))

    async def any_keys(self) -> bool:
        return bool(await self._read(SQL.any_keys))

    async def ended_sessions(self) -> set[str]:
        return {row[0] for row in await self._read(SQL.ended_sessions)}

    # --------------------------------------------------------- the database

    async def check(self) -> None:
        await self._read(SQL.check)
        self._writer.check()

    async def now(self) -> datetime:
        await self.open()
        return from_micros(clock())

    async def schema_version(self) -> int:
        ((version,),) = await self._read(GET_VERSION)
        return int(version)

    async def describe(self) -> dict[str, Any]:
        pragmas = {
            name: (await self._read(f"PRAGMA {name}"))[0][0] for name in ("journal_mode", "page_count", "page_size")
        }
        return {
            "engine": "SQLite",
            "version": apsw.sqlite_lib_version(),
            "driver": f"apsw {apsw.apsw_version()}",
            "schema": await self.schema_version(),
            "location": self._path,
            "size_bytes": pragmas["page_count"] * pragmas["page_size"],
            "journal_mode": pragmas["journal_mode"],
            "synchronous": self._synchronous,
        }


def _list(connection: apsw.Connection, wanted: EventFilter) -> list[tuple[Any, ...]]:
    named = _named(connection, wanted)
    if named is None:
        return []
    match wanted.status:
        case None | Status.COMPLETED:
            if wanted.goes_by_route:
                return _list_kinds(connection, named)
            query = SQL.events_recent
        case Status.PENDING:
            query = _PENDING_LISTS[named["given"]]
        case Status.PROCESSING:
            query = SQL.events_leased
        case _:
            query = SQL.events_dead
    return connection.execute(query, named).fetchall()


def _list_kinds(connection: apsw.Connection, named: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for floor in floors(min(named["before"], int(connection.execute(SQL.last_event).get) + 1)):
        rows = connection.execute(SQL.events_of_kinds, {**named, "floor": floor}).fetchall()
        if len(rows) == named["limit"]:
            break
    return rows


def _count(connection: apsw.Connection, wanted: EventFilter) -> int:
    named = _named(connection, wanted)
    if named is None:
        return 0
    match wanted.status:
        case None | Status.COMPLETED:
            query = _COUNTS[named["given"]]
        case Status.PENDING:
            query = SQL.count_pending
        case Status.PROCESSING:
            query = SQL.count_leased
        case _:
            query = SQL.count_letters
    return int(connection.execute(query, named).get)


def _named(connection: apsw.Connection, wanted: EventFilter) -> dict[str, Any] | None:
    """What the statements of lists and counts may name; None when no route fits, and so nothing does."""
    routes: list[int] = []
    if wanted.goes_by_route:
        rows = connection.execute(SQL.routes, {"queue": wanted.queue, "type": wanted.type})
        routes = [number for number, tags in rows if wanted.accepts(tags)]
        if not routes:
            return None
    return {
        "routed": wanted.goes_by_route,
        "routes": ids(routes) if routes else None,
        "given": wanted.goes_by_route + (wanted.type is not None),
        "completed": wanted.status is Status.COMPLETED,
        "status": wanted.status,
        "type": wanted.type,
        "before": _NO_END if wanted.before_id is None else wanted.before_id,
        "limit": wanted.limit,
        "offset": wanted.offset,
    }
