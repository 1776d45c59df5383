"""Questions to PostgreSQL: one statement each; lists choose their routes first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from eventhub.core.events import DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.store.opening import shown
from eventhub.store.postgres.memory import Remembering, in_one_incarnation
from eventhub.store.postgres.publishing import SQL
from eventhub.store.reading import floors
from eventhub.store.routes import KnownRoutes, others, to_types
from eventhub.store.rows import (
    queue_stats,
    split_tags,
    to_current,
    to_dead,
    to_key,
    to_log,
    to_orphan,
    to_queued,
    to_tag_sets,
    to_worker,
)
from eventhub.store.snapshots import SnapshotTable
from eventhub.store.values import ApiKey, Current, DeadPage, EventFilter, Orphan, QueueStats, WorkerSeen

__all__ = ["PostgresReading", "same"]

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


def same(moment: datetime) -> datetime:
    """Times come from this database as they are."""
    return moment


class PostgresReading(Remembering):
    """The reading half of the PostgreSQL store."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _known_routes(self) -> KnownRoutes: ...

    # ------------------------------------------------------------- the work

    async def next_due(self, *, now: datetime | None = None) -> float | None:
        ((seconds,),) = await self._read(SQL.next_due, now)
        return None if seconds is None else max(0.0, seconds)

    @in_one_incarnation
    async def ready_routes(
        self, queue: str, *, most: int = 1, tags: Iterable[str] | None = None
    ) -> list[tuple[str, ...]]:
        known = await self._known_routes()
        routes = [route.id for route in known.find(queue, tags)]
        return to_tag_sets(await self._read(SQL.ready_routes, routes, most), known, most) if routes else []

    async def ready_types(self, queue: str, *, unless: frozenset[str] = frozenset()) -> list[tuple[str, int]]:
        known = await self._known_routes()
        routes = others(known.find(queue, None), unless)
        return to_types(await self._read(SQL.ready_types, routes), known) if routes else []

    async def current(self, ids: Sequence[int]) -> dict[int, Current]:
        return {row[0]: to_current(row, same) for row in await self._read(SQL.standing, list(ids))}

    async def open_count(self, limit: int) -> int:
        ((count,),) = await self._read(SQL.open_count, limit)
        return int(count)

    async def orphans(
        self, queue: str, *, silent: timedelta, limit: int = 100, now: datetime | None = None
    ) -> list[Orphan]:
        return [to_orphan(row, same) for row in await self._read(SQL.orphans, queue, silent, limit, now)]

    async def count_orphans(self, queue: str, *, silent: timedelta, limit: int, now: datetime | None = None) -> int:
        ((count,),) = await self._read(SQL.count_orphans, queue, silent, limit, now)
        return int(count)

    async def workers(self, *queues: str, limit: int | None = None, now: datetime | None = None) -> list[WorkerSeen]:
        return [to_worker(row, same) for row in await self._read(SQL.workers, list(queues), now, limit)]

    async def count_workers(self, *queues: str) -> int:
        ((count,),) = await self._read(SQL.count_workers, list(queues))
        return int(count)

    async def _queues_of_workers(self) -> list[str]:
        return [row[0] for row in await self._read(SQL.queues_of_workers)]

    # ----------------------------------------------------------- the events

    async def event(self, event_id: int) -> QueuedEvent | None:
        rows = await self._read(SQL.event, event_id)
        return to_queued(rows[0], same, published_by=rows[0][21]) if rows else None

    async def event_tags(self, event_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        return {number: split_tags(tags) for number, tags in await self._read(SQL.event_tags, list(event_ids))}

    async def _events(self, wanted: EventFilter) -> list[QueuedEvent]:
        routes = await self._routes_for(wanted)
        if routes == []:
            return []
        given = [part for part in (routes, wanted.type) if part is not None]
        page = (_NO_END if wanted.before_id is None else wanted.before_id, wanted.limit, wanted.offset)
        match wanted.status:
            case None | Status.COMPLETED:
                rows = await self._latest(page, wanted, routes)
            case Status.PENDING:
                rows = await self._read(_PENDING_LISTS[len(given)], *page, *given)
            case Status.PROCESSING:
                rows = await self._read(SQL.events_leased, *page, routes, wanted.type)
            case _:
                rows = await self._read(SQL.events_dead, *page, routes, wanted.type, str(wanted.status))
        return [to_queued(row, same) for row in rows]

    async def _latest(self, page: tuple[int, int, int], wanted: EventFilter, routes: list[int] | None) -> list[Any]:
        """A page of all events that fit, or of the completed ones."""
        asked = (*page, wanted.status is not None)
        if routes is None:
            return await self._read(SQL.events_recent, *asked)
        rows: list[Any] = []
        for floor in floors(min(page[0], await self.last_event() + 1)):
            rows = await self._read(SQL.events_of_kinds, *asked, routes, wanted.type, floor)
            if len(rows) == wanted.limit:
                break
        return rows

    async def count_events(self, wanted: EventFilter) -> int:
        routes = await self._routes_for(wanted)
        if routes == []:
            return 0
        given = [part for part in (routes, wanted.type) if part is not None]
        match wanted.status:
            case None | Status.COMPLETED:
                rows = await self._read(_COUNTS[len(given)], wanted.status is not None, *given)
            case Status.PENDING:
                rows = await self._read(SQL.count_pending, routes, wanted.type)
            case Status.PROCESSING:
                rows = await self._read(SQL.count_leased, routes, wanted.type)
            case _:
                rows = await self._read(SQL.count_letters, str(wanted.status), routes, wanted.type)
        return int(rows[0][0])

    async def _routes_for(self, wanted: EventFilter) -> list[int] | None:
        """The routes of a list; None when it need not go by route."""
        if not wanted.goes_by_route:
            return None
        return [row[0] for row in await self._read(SQL.routes, wanted.queue, wanted.type) if wanted.accepts(row[1])]

    async def log(self, event_id: int) -> list[LogEntry]:
        return [to_log(tuple(row), same) for row in await self._read(SQL.log, event_id)]

    async def stats(self, queue: str | None = None) -> list[QueueStats]:
        return queue_stats({name: await self._read(getattr(SQL, name)) for name in _STATS}, queue)

    async def dead(self, *, queue: str | None = None, offset: int = 0, limit: int = 100) -> DeadPage:
        rows = await self._read(SQL.dead_page, queue, limit, offset)
        ((total,),) = await self._read(SQL.dead_total, queue)
        return DeadPage([to_dead(row, same) for row in rows], total)

    async def dead_event(self, event_id: int) -> DeadEvent | None:
        rows = await self._read(SQL.dead_event, event_id)
        return to_dead(rows[0], same) if rows else None

    async def handler_results(self, event_ids: Sequence[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
        found: dict[int, dict[str, tuple[str, str | None]]] = {}
        if event_ids:
            for event_id, handler, kind, message in await self._read(SQL.handler_results, list(event_ids)):
                found.setdefault(event_id, {})[handler] = (kind, message)
        return found

    async def is_guarded(self, event_id: int, step: str) -> bool:
        return bool(await self._read(SQL.is_guarded, event_id, step))

    # ------------------------------------------------------------ everything

    async def last_event(self) -> int:
        ((number,),) = await self._read(SQL.last_event)
        return int(number)

    async def logged_from(self, first: int) -> int | None:
        ((number,),) = await self._read(SQL.logged_from, first)
        return None if number is None else int(number)

    async def snapshot(self, table: SnapshotTable, first: int, last: int) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._read(_SNAPSHOTS[table], first, last)]

    # ------------------------------------------------------------- API keys

    async def keys(self) -> list[ApiKey]:
        return [to_key(row, same) for row in await self._read(SQL.keys)]

    async def key(self, key_id: str) -> ApiKey | None:
        rows = await self._read(SQL.key, key_id)
        return to_key(rows[0], same) if rows else None

    async def has_keys(self) -> bool:
        return bool(await self._read(SQL.has_keys))

    async def any_keys(self) -> bool:
        return bool(await self._read(SQL.any_keys))

    async def ended_sessions(self) -> set[str]:
        return {row[0] for row in await self._read(SQL.ended_sessions)}

    # --------------------------------------------------------- the database

    async def check(self) -> None:
        await self._read(SQL.check)

    async def now(self) -> datetime:
        ((moment,),) = await self._read(SQL.clock)
        return moment  # type: ignore[no-any-return]

    async def schema_version(self) -> int:
        rows = await self._read("SELECT value FROM eventhub.meta WHERE key = 'schema_version'")
        return int(rows[0][0])

    async def describe(self) -> dict[str, Any]:
        settings = ("server_version", "fsync", "synchronous_commit", "max_connections", "autovacuum")
        facts = {name: (await self._read("SELECT current_setting($1)", name))[0][0] for name in settings}
        ((size,),) = await self._read("SELECT pg_database_size(current_database())")
        return {
            "engine": "PostgreSQL",
            "version": facts.pop("server_version"),
            "driver": f"asyncpg {asyncpg.__version__}",
            "schema": await self.schema_version(),
            "location": shown(self.url),
            "size_bytes": size,
            **facts,
        }
