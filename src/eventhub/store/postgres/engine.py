"""The PostgreSQL store: batches in one statement each, a pool of connections, the same contract as SQLite."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from eventhub.core.events import DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.core.lifecycle import Bury, Complete, Reason, State
from eventhub.errors import StoreBusy
from eventhub.store.batching import Answer
from eventhub.store.contract import Store
from eventhub.store.postgres import settling
from eventhub.store.postgres.connection import migrate, open_pool, shown, translated
from eventhub.store.postgres.floors import Floors
from eventhub.store.postgres.publishing import SQL, is_plain, publish_calls, publish_plain
from eventhub.store.postgres.signals import Signals
from eventhub.store.rows import queue_stats, to_claims, to_dead, to_log, to_queued
from eventhub.store.values import (
    Claim,
    Current,
    DeadPage,
    EventFilter,
    Held,
    NewEvent,
    Published,
    QueueStats,
    Report,
    Route,
    Settled,
    Tended,
    Wanted,
    lane_id,
    routes_in,
)

__all__ = ["PostgresStore"]

R = TypeVar("R")
ROUTES_SECONDS = 1.0
"""How long the list of a queue's routes is trusted while it yields work."""
TRIES = 4
"""How often a transaction of ours that lost to a deadlock is tried before the caller hears of it."""
_COUNTS = ("count_open", "count_dead", "count_events", "ages", "attempts", "count_results", "recent_ends")


class PostgresStore(Store):
    """Events in the schema ``eventhub`` of a PostgreSQL database, for any number of processes and hosts."""

    engine = "postgres"

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        super().__init__(url, lanes=2)
        self._pool_size = pool_size
        self._pool: asyncpg.Pool[asyncpg.Record]
        self._signals = Signals(url, self.wakeups)
        self._routes: dict[Route, int] = {}
        self._queue_routes: dict[str, tuple[float, list[tuple[int, str, int]]]] = {}
        self._floors = Floors()
        self._days_at = 0.0

    # ------------------------------------------------------------------ life

    async def _open(self) -> None:
        self._pool = await open_pool(self.url, self._pool_size)
        try:
            await migrate(self._pool, self.url)
            await self._make_days()
        except BaseException:
            self._pool.terminate()
            raise

    async def _close(self) -> None:
        await self._signals.stop()
        await self._pool.close()

    async def _make_days(self) -> None:
        if time.monotonic() >= self._days_at:
            self._days_at = time.monotonic() + 3600
            await self._fetch(SQL.make_log_days)

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        with translated(self.url):
            return await self._pool.fetch(query, *args)

    async def _read(self, query: str, *args: Any) -> list[Any]:
        await self.open()
        return await self._fetch(query, *args)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        with translated(self.url):
            async with self._pool.acquire() as connection, connection.transaction():
                yield connection

    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R:
        """Run work in a transaction, again when it lost to a deadlock."""
        for remaining in reversed(range(TRIES)):
            try:
                async with self._transaction() as connection:
                    return await work(connection)
            except StoreBusy:
                if not remaining:
                    raise
        raise AssertionError

    @property
    def name(self) -> str:
        return shown(self.url)

    def _notify(self, queue: str | None) -> None:
        self._signals.send(queue)

    # -------------------------------------------------------------- publish

    async def _publish_all(self, calls: list[Sequence[NewEvent]], now: datetime | None) -> list[Answer[Published]]:
        await self._learn_routes(routes_in(calls))
        if is_plain(calls):
            with translated(self.url):
                return await publish_plain(self._pool, calls, self._routes, now)
        return await self._transact(lambda connection: publish_calls(connection, calls, self._routes, now))

    async def _publish_within(
        self, connection: Any, events: Sequence[NewEvent], now: datetime | None
    ) -> list[Published]:
        if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
            raise TypeError(
                f"connection is a {type(connection).__module__}.{type(connection).__name__}; this store is PostgreSQL, "
                "so give an asyncpg connection to the same database."
            )
        if not connection.is_in_transaction():
            raise ValueError(
                "The connection is not in a transaction; start one with `async with connection.transaction():`."
            )
        await self._learn_routes({event.route for event in events})
        with translated(self.url):
            (answer,) = await publish_calls(connection, [events], self._routes, now)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _learn_routes(self, wanted: set[Route]) -> None:
        for route in wanted - self._routes.keys():
            named = (route.queue, ",".join(route.tags), route.priority)
            rows = await self._fetch(SQL.find_route, *named)
            if not rows:
                await self._fetch(SQL.intern_route, *named)
                rows = await self._fetch(SQL.find_route, *named)
                self._queue_routes.pop(route.queue, None)
            self._routes[route] = rows[0][0]

    # ---------------------------------------------------------------- claim

    async def _claim(self, wanted: Wanted) -> list[Claim]:
        rows: list[Any] = []
        for fresh in (False, True):
            by_priority: dict[int, list[int]] = {}
            known = await self._routes_of(wanted.queue, fresh=fresh or wanted.now is not None)
            for number, route_tags, priority in known:
                if wanted.accepts(route_tags):
                    by_priority.setdefault(priority, []).append(number)
            for routes in by_priority.values():  # highest priority first
                left = wanted.limit - len(rows)
                if left > 0:
                    rows += await self._claim_routes(routes, left, wanted)
            if rows or wanted.now is not None:
                break
        return _claims(rows, wanted.lease)

    async def _routes_of(self, queue: str, *, fresh: bool) -> list[tuple[int, str, int]]:
        """The routes of a queue: another process may have added one, so an empty claim looks again."""
        known_at, known = self._queue_routes.get(queue, (0.0, []))
        age = time.monotonic() - known_at
        if fresh or not known or age > ROUTES_SECONDS:
            known = [tuple(row) for row in await self._fetch(SQL.queue_routes, queue)]
            self._queue_routes[queue] = (time.monotonic(), known)
        return known

    async def _claim_routes(self, routes: list[int], limit: int, wanted: Wanted) -> list[Any]:
        if len(routes) == 1:
            return await self._claim_route(routes[0], limit, wanted)
        asked = (limit, wanted.worker, wanted.lease)
        rows = await self._fetch(SQL.claim_routes, routes, *asked, wanted.max_attempts, wanted.now)
        if not rows and await self._fetch(SQL.any_ready, routes):
            # Others hold the oldest of all just now. One by one, a claim steps over what is held.
            for route in routes:
                if len(rows) < limit:
                    rows += await self._claim_route(route, limit - len(rows), wanted)
        return rows

    async def _claim_route(self, route: int, limit: int, wanted: Wanted) -> list[Any]:
        asked = (limit, wanted.worker, wanted.lease)
        rows: list[Any] = []
        for start in {0 if wanted.now is not None else self._floors.start(route): None, 0: None}:
            started = time.monotonic()
            rows = await self._fetch(SQL.claim_route, route, *asked, start, wanted.max_attempts, wanted.now)
            if rows:
                self._floors.claimed(route, started_at=start, last=rows[-1][15], took=time.monotonic() - started)
                break
        return rows

    async def _claim_ids(self, ids: Sequence[int], worker: str, lease: timedelta, now: datetime | None) -> list[Claim]:
        return _claims(await self._fetch(SQL.claim_ids, sorted(ids), worker, lease, now), lease)

    async def _extend(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        ordered = sorted(held, key=lambda claim: claim.id)
        rows = await self._fetch(SQL.extend, [c.id for c in ordered], [c.fence for c in ordered], lease, now)
        lost = {claim.id for claim in held} - {row[0] for row in rows}
        if lost:  # or extended by another call at the same moment, which hides the row from a statement that waited
            missed = [claim for claim in ordered if claim.id in lost]

            async def again(connection: Any) -> list[Any]:
                await connection.fetch(SQL.hold_deliveries, [c.id for c in missed])
                columns = [c.id for c in missed], [c.fence for c in missed]
                return await connection.fetch(SQL.extend, *columns, lease, now)  # type: ignore[no-any-return]

            lost -= {row[0] for row in await self._transact(again)}
        return lost

    # --------------------------------------------------------------- settle

    async def _settle(self, reports: list[Report], now: datetime | None) -> list[Settled]:
        if all(type(report.outcome) is Complete and report.held.lane is None for report in reports):
            with translated(self.url):  # the common case: one statement is its own transaction
                settled, _ = await settling.settle(self._pool, reports, now)
        else:
            settled, freed = await self._transact(lambda connection: settling.settle(connection, reports, now))
            self._floors.lower(freed)
        again = settling.to_try_again(reports, settled)
        if again:
            known = list(again.values())
            answers, freed = await self._transact(lambda connection: settling.settle(connection, known, now, hold=True))
            self._floors.lower(freed)
            for position, answer in zip(again, answers, strict=True):
                settled[position] = answer
        return settled

    # ----------------------------------------------------------------- tend

    async def _tend(self, now: datetime | None, limit: int) -> Tended:
        await self._make_days()
        rows = await self._fetch(SQL.tend, now, limit)
        self._floors.lower([(row[1], row[2]) for row in rows if row[0] != "last"])
        promoted = sum(row[0] == "promoted" for row in rows)
        abandoned = sum(row[0] == "abandoned" for row in rows)
        lost = [(Held(row[3], row[4], row[5]), row[6]) for row in rows if row[0] == "last"]
        buried = await self._bury_lost(lost, now, by_lease=True) if lost else set()
        return Tended(promoted=promoted, abandoned=abandoned, buried=tuple(sorted(buried)))

    async def _bury_lost(self, lost: list[tuple[Held, str]], now: datetime | None, *, by_lease: bool) -> set[int]:
        reports = [
            Report(held, Bury(f"Abandoned: {worker} did not report before its lease ended.", Reason.WORKER_LOST))
            for held, worker in sorted(lost, key=lambda pair: pair[0].id)
        ]
        lanes = settling.lanes_of(reports)

        async def work(connection: Any) -> tuple[set[int], settling.Freed]:
            if lanes:
                await connection.fetch(SQL.hold_lanes, lanes)
            before = (now or await connection.fetchval("SELECT now()")) if by_lease else None
            await connection.fetch(SQL.hold_deliveries, [report.held.id for report in reports])
            buried = await settling.bury(connection, reports, now, last_action="ABANDONED", ended_before=before)
            return {number for number, _ in buried}, await settling.advance(connection, lanes, now) if lanes else []

        buried, freed = await self._transact(work)
        self._floors.lower(freed)
        return buried

    async def _holders(self, queue: str) -> list[str]:
        return [row[0] for row in await self._fetch(SQL.holders, queue)]

    async def _take_back(self, workers: Sequence[str], now: datetime | None) -> Tended:
        held = await self._fetch(SQL.held_by, list(workers))
        again = [row for row in held if row[5] is None or row[4] < row[5]]
        lost = [(Held(row[0], row[1], row[2]), row[3]) for row in held if row[5] is not None and row[4] >= row[5]]
        rows = await self._fetch(SQL.take_back, [r[0] for r in again], [r[1] for r in again], now)
        self._floors.lower([(row[1], row[2]) for row in rows])
        buried = await self._bury_lost(lost, now, by_lease=False) if lost else set()
        return Tended(abandoned=len(rows), buried=tuple(sorted(buried)))

    async def next_due(self, *, now: datetime | None = None) -> float | None:
        ((seconds,),) = await self._read(SQL.next_due, now)
        return None if seconds is None else max(0.0, seconds)

    async def wait(self, queue: str, *, since: int, timeout: float) -> bool:
        self._signals.start()
        return await super().wait(queue, since=since, timeout=timeout)

    async def reset(self, event_id: int, *, reason: str, now: datetime | None = None) -> bool:
        rows = await self._read(SQL.reset, event_id, reason, now)
        self._floors.lower([(row[0], row[1]) for row in rows])
        self._announce(None)
        return bool(rows)

    # -------------------------------------------------------------- reading

    async def ready(self, queue: str, *, after_id: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        return [(row[0], row[1]) for row in await self._read(SQL.ready, queue, after_id, limit)]

    async def current(self, ids: Sequence[int]) -> dict[int, Current]:
        return {row[0]: settling.to_current(row) for row in await self._read(SQL.standing, list(ids))}

    async def event(self, event_id: int) -> QueuedEvent | None:
        rows = await self._read(SQL.event, event_id)
        return to_queued(rows[0], _same) if rows else None

    async def events(self, wanted: EventFilter) -> list[QueuedEvent]:
        args: list[Any] = [wanted.before_id or 2**63 - 1, wanted.type, wanted.queue, wanted.limit]
        query = SQL.events_recent
        if wanted.status in (Status.PENDING, Status.PROCESSING):
            states = [State.LEASED] if wanted.status is Status.PROCESSING else [0, 2, 3]
            query, args = SQL.events_open, [*args, states]
        elif wanted.status is Status.COMPLETED:
            query = SQL.events_completed
        elif wanted.status is not None:
            query, args = SQL.events_dead, [*args, str(wanted.status)]
        return [to_queued(row, _same) for row in await self._read(query, *args)]

    async def log(self, event_id: int) -> list[LogEntry]:
        return [to_log(tuple(row), _same) for row in await self._read(SQL.log, event_id)]

    async def stats(self, queue: str | None = None) -> list[QueueStats]:
        return queue_stats({name: await self._read(getattr(SQL, name)) for name in _COUNTS}, queue)

    # ---------------------------------------------------------- dead letters

    async def dead(self, *, queue: str | None = None, offset: int = 0, limit: int = 100) -> DeadPage:
        rows = await self._read(SQL.dead_page, queue, limit, offset)
        ((total,),) = await self._read(SQL.dead_total, queue)
        return DeadPage([to_dead(row, _same) for row in rows], total)

    async def dead_event(self, event_id: int) -> DeadEvent | None:
        rows = await self._read(SQL.dead_event, event_id)
        return to_dead(rows[0], _same) if rows else None

    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]:
        async def work(connection: Any) -> list[Any]:
            letters = await connection.fetch(SQL.dead_standing, list(ids))
            if not letters:
                return []
            ordered = {row[2]: (row[2], row[3], row[4]) for row in letters if row[2] is not None}
            if ordered:
                await connection.execute(SQL.lock_lanes, *(list(c) for c in zip(*ordered.values(), strict=True)))
            await connection.execute(SQL.close_dead, [row[0] for row in letters], by, now)
            revived: list[Any] = await connection.fetch(SQL.revive, [row[0] for row in letters], by, now)
            return revived

        await self.open()
        rows = await self._transact(work)
        self._floors.lower([(row[1], row[2]) for row in rows])
        self._announce(None)
        return {row[0] for row in rows}

    async def purge_dead(
        self, *, older_than: timedelta, by: str = "dead_at", queue: str | None = None, now: datetime | None = None
    ) -> int:
        ((count,),) = await self._read(SQL.purge, by, older_than, queue, now)
        return int(count)

    async def unpark(self, queue: str, ordering_key: str, *, by: str, now: datetime | None = None) -> bool:
        lane = lane_id(queue, ordering_key)

        async def work(connection: Any) -> tuple[bool, settling.Freed]:
            await connection.fetch(SQL.hold_lanes, [lane])
            if not await connection.fetch(SQL.unpark, lane, by, now):
                return False, []
            return True, await settling.advance(connection, [lane], now)

        await self.open()
        done, freed = await self._transact(work)
        self._floors.lower(freed)
        self._announce(queue)
        return done

    # ---------------------------------------------------- results and guards

    async def record_results(
        self, held: Held, results: Sequence[tuple[str, str, str | None]], *, now: datetime | None = None
    ) -> bool:
        columns = [list(column) for column in zip(*results, strict=True)] or [[], [], []]
        rows = await self._read(SQL.record_results, held.id, held.fence, *columns, now)
        return len(rows) == len(results)

    async def handler_results(self, event_ids: Sequence[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
        found: dict[int, dict[str, tuple[str, str | None]]] = {}
        if event_ids:
            for event_id, handler, kind, message in await self._read(SQL.handler_results, list(event_ids)):
                found.setdefault(event_id, {})[handler] = (kind, message)
        return found

    async def guard(self, event_id: int, step: str, *, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.guard, event_id, step, now))

    async def is_guarded(self, event_id: int, step: str) -> bool:
        return bool(await self._read(SQL.is_guarded, event_id, step))

    # ------------------------------------------------------------------ facts

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


def _same(moment: datetime) -> datetime:
    return moment


def _claims(rows: list[Any], lease: timedelta) -> list[Claim]:
    if not rows:
        return []
    until = rows[0][17]
    return to_claims(rows, raised=0, now=until - lease, until=until, time=_same)
