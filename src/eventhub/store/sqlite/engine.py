"""The SQLite store: one writer thread that commits in groups, one reader thread, the same contract as PostgreSQL."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import apsw

from eventhub.core.events import DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.core.lifecycle import State
from eventhub.store.batching import Answer
from eventhub.store.contract import Store
from eventhub.store.rows import (
    from_micros,
    micros,
    queue_stats,
    to_dead,
    to_log,
    to_queued,
)
from eventhub.store.sqlite import dead, settling
from eventhub.store.sqlite.claiming import claim_chosen, claim_queue
from eventhub.store.sqlite.connection import GET_VERSION, check_library, connect, migrate, translated
from eventhub.store.sqlite.publishing import SQL, ids, publish_calls, route_number
from eventhub.store.sqlite.thread import ConnectionThread
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
    routes_in,
)

__all__ = ["SqliteStore"]

R = TypeVar("R")
WATCH_SECONDS = 0.02
"""How often an idle process looks whether another one has written to the file."""
_MICROSECOND = timedelta(microseconds=1)
_COUNTS = ("count_open", "count_dead", "count_events", "ages", "attempts", "count_results", "recent_ends")


class SqliteStore(Store):
    """Events in one SQLite file; several processes may share it."""

    engine = "sqlite"

    def __init__(self, path: str, *, synchronous: str = "FULL") -> None:
        super().__init__(path)
        self._path = path
        self._synchronous = synchronous
        self._routes: dict[Route, int] = {}
        self._writer: ConnectionThread
        self._reader: ConnectionThread
        self._watcher: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ life

    async def _open(self) -> None:
        check_library()
        self._writer = ConnectionThread(self._path, self._connect_writer, writes=True)
        await self._writer.start()
        self._reader = self._writer
        if self._path != ":memory:":
            opened = functools.partial(connect, self._path, read_only=True)
            self._reader = ConnectionThread(self._path, opened, writes=False)
            try:
                await self._reader.start()
            except BaseException:
                await self._writer.stop()
                raise

    def _connect_writer(self) -> apsw.Connection:
        connection = connect(self._path, synchronous=self._synchronous)
        migrate(connection, self._path)
        return connection

    async def _close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._reader is not self._writer:
            await self._reader.stop()
        await self._writer.stop()

    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R:
        """Run ``work(connection, *args, now)`` in the next commit; the time is taken when it runs."""

        def job(connection: apsw.Connection) -> R:
            return work(connection, *args, _now(now))

        return await self._writer.run(job)

    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]:
        await self.open()
        return await self._reader.run(lambda connection: connection.execute(query, named).fetchall())

    # ------------------------------------------------- publish, claim, settle

    async def _publish_all(self, calls: list[Sequence[NewEvent]], now: datetime | None) -> list[Answer[Published]]:
        await self._learn_routes(routes_in(calls))
        return await self._write(self._publish_job, calls, now=now)

    def _publish_job(
        self, connection: apsw.Connection, calls: list[Sequence[NewEvent]], now: int
    ) -> list[Answer[Published]]:
        return publish_calls(connection, calls, self._routes, now)

    async def _publish_within(
        self, connection: Any, events: Sequence[NewEvent], now: datetime | None
    ) -> list[Published]:
        if not isinstance(connection, apsw.Connection):
            raise TypeError(
                f"connection is a {type(connection).__module__}.{type(connection).__name__}; this store is an SQLite "
                "file, so give an apsw.Connection to the same file (two SQLite builds must never share a WAL file)."
            )
        if not connection.in_transaction:
            raise ValueError("The connection is not in a transaction; start one, such as with `with connection:`.")
        with translated(self._path):
            (answer,) = publish_calls(connection, [events], self._routes, _now(now))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _learn_routes(self, wanted: set[Route]) -> None:
        for route in wanted - self._routes.keys():
            self._routes[route] = await self._writer.run(functools.partial(route_number, route=route))

    async def _claim(self, wanted: Wanted) -> list[Claim]:
        return await self._write(claim_queue, wanted, now=wanted.now)

    async def _claim_ids(self, ids_: Sequence[int], worker: str, lease: timedelta, now: datetime | None) -> list[Claim]:
        return await self._write(claim_chosen, ids_, Wanted(queue="", worker=worker, lease=lease), now=now)

    async def _extend(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        def work(connection: apsw.Connection, at: int) -> set[int]:
            return settling.extend(connection, held, at + lease // _MICROSECOND)

        return await self._write(work, now=now)

    async def _settle(self, reports: list[Report], now: datetime | None) -> list[Settled]:
        return await self._write(settling.settle, reports, now=now)

    # ----------------------------------------------------------------- tend

    async def _tend(self, now: datetime | None, limit: int) -> Tended:
        due = await self.next_due(now=now)
        if due is None or due > 0:
            return Tended()
        return await self._write(lambda connection, at: settling.tend(connection, at, limit), now=now)

    async def _holders(self, queue: str) -> list[str]:
        return [worker for (worker,) in await self._read(SQL.holders, queue=queue)]

    async def _take_back(self, workers: Sequence[str], now: datetime | None) -> Tended:
        def work(connection: apsw.Connection, at: int) -> Tended:
            held = list(connection.execute(SQL.held_by, {"workers": apsw.carray(tuple(workers)), "limit": -1}))
            abandoned, buried = settling.abandon(connection, held, at) if held else (0, ())
            return Tended(abandoned=abandoned, buried=buried)

        return await self._write(work, now=now)

    async def next_due(self, *, now: datetime | None = None) -> float | None:
        ((due,),) = await self._read(SQL.next_due)
        return None if due is None else max(0.0, (due - _now(now)) / 1e6)

    async def reset(self, event_id: int, *, reason: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            row = connection.execute(SQL.reset, {"id": event_id}).fetchone()
            if row is None:
                return False
            event, attempts, fence = row
            connection.execute(SQL.write_log, (event, event_id, "RESET", None, attempts, fence, None, reason, None, at))
            return True

        await self.open()
        done = await self._write(work, now=now)
        self._announce(None)
        return done

    # -------------------------------------------------------------- waiting

    async def wait(self, queue: str, *, since: int, timeout: float) -> bool:
        if self._path != ":memory:" and (self._watcher is None or self._watcher.done()):
            self._watcher = asyncio.create_task(self._watch())
        return await super().wait(queue, since=since, timeout=timeout)

    async def _watch(self) -> None:
        """Wake everyone when the file was written by another process; a look costs microseconds."""
        connection = connect(self._path, read_only=True)
        try:
            seen = connection.pragma("data_version")
            self.wakeups.wake()  # whatever was written while nobody watched
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                version = connection.pragma("data_version")
                if version != seen:
                    seen = version
                    self.wakeups.wake()
        finally:
            connection.close()

    # -------------------------------------------------------------- reading

    async def ready(self, queue: str, *, after_id: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        rows = await self._read(SQL.ready, queue=queue, after_id=after_id, limit=limit)
        return [(number, type_) for number, type_ in rows]

    async def current(self, ids: Sequence[int]) -> dict[int, Current]:
        await self.open()
        if not ids:
            return {}
        return await self._reader.run(lambda connection: settling.current_of(connection, ids))

    async def event(self, event_id: int) -> QueuedEvent | None:
        rows = await self._read(SQL.event, id=event_id)
        return to_queued(rows[0], from_micros) if rows else None

    async def events(self, wanted: EventFilter) -> list[QueuedEvent]:
        named: dict[str, Any] = {
            "type": wanted.type,
            "queue": wanted.queue,
            "before": wanted.before_id or 2**63 - 1,
            "limit": wanted.limit,
        }
        query = SQL.events_recent
        if wanted.status in (Status.PENDING, Status.PROCESSING):
            states = [State.LEASED] if wanted.status is Status.PROCESSING else [0, 2, 3]
            query, named["states"] = SQL.events_open, ids(states)
        elif wanted.status is Status.COMPLETED:
            query = SQL.events_completed
        elif wanted.status is not None:
            query, named["status"] = SQL.events_dead, wanted.status
        return [to_queued(row, from_micros) for row in await self._read(query, **named)]

    async def log(self, event_id: int) -> list[LogEntry]:
        return [to_log(row, from_micros) for row in await self._read(SQL.log, event_id=event_id)]

    async def stats(self, queue: str | None = None) -> list[QueueStats]:
        at = _now(None)
        counts = {
            name: await self._read(getattr(SQL, name), **({"now": at} if name == "ages" else {})) for name in _COUNTS
        }
        return queue_stats(counts, queue)  # type: ignore[arg-type]

    # ---------------------------------------------------------- dead letters

    async def dead(self, *, queue: str | None = None, offset: int = 0, limit: int = 100) -> DeadPage:
        rows = await self._read(SQL.dead_page, queue=queue, offset=offset, limit=limit)
        ((total,),) = await self._read(SQL.dead_total, queue=queue)
        return DeadPage([to_dead(row, from_micros) for row in rows], total)

    async def dead_event(self, event_id: int) -> DeadEvent | None:
        rows = await self._read(SQL.dead_event, event_id=event_id)
        return to_dead(rows[0], from_micros) if rows else None

    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]:
        await self.open()
        if not ids:
            return set()
        revived = await self._write(dead.retry_dead, ids, by, now=now)
        self._announce(None)
        return revived

    async def purge_dead(
        self, *, older_than: timedelta, by: str = "dead_at", queue: str | None = None, now: datetime | None = None
    ) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            return dead.purge_dead(connection, at - older_than // _MICROSECOND, by, queue)

        await self.open()
        return await self._write(work, now=now)

    async def unpark(self, queue: str, ordering_key: str, *, by: str, now: datetime | None = None) -> bool:
        await self.open()
        done = await self._write(dead.unpark, queue, ordering_key, by, now=now)
        self._announce(queue)
        return done

    # ---------------------------------------------------- results and guards

    async def record_results(
        self, held: Held, results: Sequence[tuple[str, str, str | None]], *, now: datetime | None = None
    ) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            rows = [(held.id, held.fence, *result, at) for result in results]
            return len(list(connection.executemany(SQL.record_result, rows))) == len(rows)

        await self.open()
        return await self._write(work, now=now)

    async def handler_results(self, event_ids: Sequence[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
        found: dict[int, dict[str, tuple[str, str | None]]] = {}
        if event_ids:
            for event_id, handler, kind, message in await self._read(SQL.handler_results, ids=ids(event_ids)):
                found.setdefault(event_id, {})[handler] = (kind, message)
        return found

    async def guard(self, event_id: int, step: str, *, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            return bool(connection.execute(SQL.guard, {"event_id": event_id, "step": step, "now": at}).fetchall())

        await self.open()
        return await self._write(work, now=now)

    async def is_guarded(self, event_id: int, step: str) -> bool:
        return bool(await self._read(SQL.is_guarded, event_id=event_id, step=step))

    # ------------------------------------------------------------------ facts

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


def _now(now: datetime | None) -> int:
    return int(time.time() * 1e6) if now is None else micros(now)
