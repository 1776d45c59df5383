"""The SQLite store: one writer thread that commits in groups, one reader thread, the same contract as PostgreSQL."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import apsw

from eventhub.errors import StoreBusy, StoreClosed
from eventhub.store.acts import published_by
from eventhub.store.audit import Act
from eventhub.store.batching import Answer
from eventhub.store.claims import Claim, Held, Wanted
from eventhub.store.columns import routes_in
from eventhub.store.incarnations import Incarnation, Restored
from eventhub.store.retirement import ROUTES_AT_ONCE, WORK_AT_ONCE
from eventhub.store.routes import KnownRoutes
from eventhub.store.sqlite import incarnations, settling
from eventhub.store.sqlite.audit import SqliteAudit, audited
from eventhub.store.sqlite.buses import SqliteBuses
from eventhub.store.sqlite.checkpoints import Checkpoints
from eventhub.store.sqlite.claiming import claim_chosen, claim_one_by_one
from eventhub.store.sqlite.connection import check_library, clock, connect, migrate, reopen, translated
from eventhub.store.sqlite.delivering import SqliteDelivering
from eventhub.store.sqlite.ledger import SqliteLedger
from eventhub.store.sqlite.messaging import SqliteMessaging
from eventhub.store.sqlite.operating import SqliteOperating
from eventhub.store.sqlite.pruning import SqlitePruning
from eventhub.store.sqlite.publishing import SQL, ids, publish_calls, route_number
from eventhub.store.sqlite.reading import SqliteReading
from eventhub.store.sqlite.thread import ConnectionThread
from eventhub.store.sqlite.watching import SqliteWatching
from eventhub.store.values import NewEvent, Published, Report, Route, Settled, Tended

__all__ = ["SqliteStore"]

R = TypeVar("R")
WATCH_SECONDS = 0.02
"""How often an idle process looks whether another one has written to the file."""
BRIEF_CHARACTERS = 16_384
CACHE_SIZE = 4096
"""Routes with a type whose numbers are remembered; the others are as few as queues and subscribers."""
_MICROSECOND = timedelta(microseconds=1)


class SqliteStore(
    SqliteReading,
    SqliteOperating,
    SqliteDelivering,
    SqliteMessaging,
    SqliteLedger,
    SqlitePruning,
    SqliteWatching,
    SqliteAudit,
    SqliteBuses,
):
    """Events in one SQLite file; several processes may share it."""

    engine = "sqlite"

    def __init__(self, path: str, *, synchronous: str = "FULL") -> None:
        super().__init__(path)
        self._path = path
        self._file: str
        """The path that it was opened by, wherever the process goes to: connections are made later, too."""
        self._synchronous = synchronous
        self._checkpoints: Checkpoints
        self._routes: dict[Route, int] = {}
        self._known = KnownRoutes()
        self._writer: ConnectionThread
        self._reader: ConnectionThread
        self._watcher: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ life

    async def _open(self) -> None:
        check_library()
        self._file = _absolute(self._path)
        self._checkpoints = Checkpoints(self._file, self._synchronous)
        self._writer = ConnectionThread(self._path, self._connect_writer, writes=True, between=self._checkpoints.tend)
        await self._writer.start()
        self._reader = self._writer
        if self._path != ":memory:":
            opened = functools.partial(connect, self._file, read_only=True)
            self._reader = ConnectionThread(self._path, opened, writes=False)
            try:
                await self._reader.start()
            except BaseException:
                await self._writer.stop()
                raise

    def _connect_writer(self) -> apsw.Connection:
        connection = connect(self._path, synchronous=self._synchronous)
        migrate(connection, self._path)
        self._checkpoints.watch(connection)
        return connection

    async def incarnation(self) -> Incarnation:
        await self.open()
        return await self._reader.run(incarnations.identify)

    async def begin_incarnation(self) -> Restored:
        if self._is_closed:
            raise StoreClosed(f"The store {self._path} was closed; open it again with open_store.")
        if self._is_open:
            raise StoreBusy(f"{self._path} is open here; begin a new incarnation with a store that is not.")
        return await asyncio.to_thread(incarnations.begin, self._path, self._synchronous)

    async def _close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._close_orphaned()

    async def _close_orphaned(self) -> None:
        if self._reader is not self._writer:
            await self._reader.stop()
        try:
            await self._writer.stop()
        finally:
            await asyncio.to_thread(self._checkpoints.stop)

    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None, brief: bool = False) -> R:
        """Run ``work(connection, *args, now)`` in the next commit; the time is taken when it runs."""

        def job(connection: apsw.Connection) -> R:
            return work(connection, *args, clock(now))

        return await self._writer.run(job, brief=brief)

    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]:
        await self.open()
        return await self._reader.run(lambda connection: connection.execute(query, named).fetchall())

    # ------------------------------------------------- publish, claim, settle

    async def _publish_all(
        self, calls: list[Sequence[NewEvent]], now: datetime | None = None
    ) -> list[Answer[Published]]:
        await self._learn_routes(routes_in(calls))
        return await self._write(self._publish_job, calls, now=now, brief=_is_brief(calls))

    def _publish_job(
        self, connection: apsw.Connection, calls: list[Sequence[NewEvent]], now: int
    ) -> list[Answer[Published]]:
        return publish_calls(connection, calls, self._routes, now)

    async def _publish_acting(self, events: Sequence[NewEvent], act: Act, now: datetime | None) -> Sequence[Published]:
        def work(connection: apsw.Connection, at: int) -> Sequence[Published]:
            (answer,) = publish_calls(connection, [events], self._routes, at)
            if isinstance(answer, Exception):
                raise answer
            return answer

        await self._learn_routes(routes_in([events]))
        return await self._write(audited(published_by(act), work), now=now)

    async def _publish_within(
        self, connection: Any, events: Sequence[NewEvent], now: datetime | None
    ) -> Sequence[Published]:
        if not isinstance(connection, apsw.Connection):
            raise TypeError(
                f"connection is a {type(connection).__module__}.{type(connection).__name__}; this store is an SQLite "
                "file, so give an apsw.Connection to the same file (two SQLite builds must never share a WAL file)."
            )
        if not connection.in_transaction:
            raise ValueError("The connection is not in a transaction; start one, such as with `with connection:`.")
        with translated(self._path):
            (answer,) = publish_calls(connection, [events], self._routes, clock(now))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _learn_routes(self, wanted: set[Route]) -> None:
        unknown = [route for route in wanted if route not in self._routes]
        if not unknown:
            return

        def work(connection: apsw.Connection, at: int) -> dict[Route, int]:
            return {route: route_number(connection, route, at) for route in unknown}

        learnt = await self._write(work)  # only now are they known to be committed
        if len(self._routes) + len(learnt) > CACHE_SIZE:
            self._routes = {route: number for route, number in self._routes.items() if not route.type}
        self._routes |= learnt

    async def _claim(self, wanted: Wanted) -> list[Claim]:
        (claims,) = await self._claim_together([wanted])
        return claims

    async def _claim_together(self, wanted: Sequence[Wanted]) -> list[list[Claim]]:
        claims, learnt = await self._write(claim_one_by_one, wanted, self._known, now=wanted[0].now)
        self._known.learn(learnt)  # only now are they known to be committed
        return claims

    async def _claim_ids(self, ids_: Sequence[int], worker: str, lease: timedelta, now: datetime | None) -> list[Claim]:
        return await self._write(claim_chosen, ids_, Wanted(queue="", worker=worker, lease=lease), now=now)

    async def _extend(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        def work(connection: apsw.Connection, at: int) -> set[int]:
            return settling.extend(connection, held, at + lease // _MICROSECOND)

        return await self._write(work, now=now)

    async def _start(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        def work(connection: apsw.Connection, at: int) -> set[int]:
            return settling.start(connection, held, at + lease // _MICROSECOND, at)

        return await self._write(work, now=now)

    async def _settle(self, reports: list[Report], now: datetime | None) -> Sequence[Settled]:
        await self._learn_routes({report.again for report in reports if report.again is not None})
        return await self._write(settling.settle, reports, self._routes, now=now)

    # ----------------------------------------------------------------- tend

    async def _tend(self, now: datetime | None, limit: int) -> Tended:
        ((due, to_hand_out, seen),) = await self._read(SQL.sweep)
        at = clock(now)
        waits = due is not None or to_hand_out  # else the clock need not be noted, and nothing is written
        note = settling.set_back(seen, at) or (waits and at >= seen + settling.CLOCK_STEP)
        if not note and (due is None or at < due):
            return Tended()
        return await self._write(lambda connection, at: settling.tend(connection, at, limit), now=now)

    async def _recover_strays(self) -> int:
        def work(connection: apsw.Connection, at: int) -> tuple[int, int]:
            rows: list[Any] = connection.execute(SQL.stray_routes, {"limit": ROUTES_AT_ONCE}).fetchall()
            typed = [number for number, _, _, _, type_ in rows if type_]
            if typed:
                connection.execute(SQL.bring_back, {"routes": ids(typed), "now": at})
            moved = [_move_work(connection, tuple(row), at) for row in rows if not row[4]]
            return max(moved, default=0), len(rows)

        most, found = await self._write(work)
        if found:
            self._announce(None)
        return most

    async def _retire_routes(self, after: int, idle: timedelta) -> tuple[list[int], int]:
        def work(connection: apsw.Connection, at: int) -> tuple[list[int], int]:
            asked = {"after": after, "before": at - idle // _MICROSECOND, "limit": ROUTES_AT_ONCE}
            found = [number for (number,) in connection.execute(SQL.idle_routes, asked)]
            done = connection.execute(SQL.retire_routes, {"routes": ids(found), "now": at}).fetchall() if found else []
            return found, len(done)

        return await self._write(work)

    async def _drop_routes(self, kept: timedelta) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            asked = {"before": at - kept // _MICROSECOND, "limit": ROUTES_AT_ONCE}
            return len(connection.execute(SQL.drop_routes, asked).fetchall())

        return await self._write(work)

    async def _holders(self, queue: str) -> list[str]:
        return [worker for (worker,) in await self._read(SQL.holders, queue=queue)]

    async def _take_back(self, workers: Sequence[str], now: datetime | None) -> Tended:
        def work(connection: apsw.Connection, at: int) -> Tended:
            held = list(connection.execute(SQL.held_by, {"workers": apsw.carray(tuple(workers)), "limit": -1}))
            abandoned, buried = settling.abandon(connection, held, at) if held else (0, ())
            return Tended(abandoned=abandoned, buried=buried)

        return await self._write(work, now=now)

    # -------------------------------------------------------------- waiting

    async def wait(self, queue: str, *, since: int, timeout: float, until_due: bool = True) -> bool:
        await self.open()  # a store that is closed watches no more
        if self._path != ":memory:" and (self._watcher is None or self._watcher.done()):
            self._watcher = asyncio.create_task(self._watch())
        return await super().wait(queue, since=since, timeout=timeout, until_due=until_due)

    async def _watch(self) -> None:
        """Wake everyone when the file was written by another process; a look costs microseconds."""
        with suppress(apsw.Error), closing(reopen(self._file, synchronous=self._synchronous)) as connection:
            seen = connection.pragma("data_version")
            self.wakeups.wake()  # whatever was written while nobody watched
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                version = connection.pragma("data_version")
                if version != seen:
                    seen = version
                    self.wakeups.wake()


def _absolute(path: str) -> str:
    return path if path == ":memory:" else str(Path(path).absolute())


def _is_brief(calls: list[Sequence[NewEvent]]) -> bool:
    """Whether it is one event of usual size."""
    return len(calls) == len(calls[0]) == 1 and len(calls[0][0].payload) <= BRIEF_CHARACTERS


def _move_work(connection: apsw.Connection, stray: tuple[Any, ...], now: int) -> int:
    """What is open on a route without a type goes to those of its types."""
    route, queue, tags, priority, _ = stray
    work: list[Any] = connection.execute(SQL.stray_work, {"route": route, "limit": WORK_AT_ONCE}).fetchall()
    by_type: dict[str, list[int]] = {}
    for number, type_ in work[:WORK_AT_ONCE]:
        by_type.setdefault(type_, []).append(number)
    for type_, numbers in by_type.items():
        named = {"queue": queue, "tags": tags, "priority": priority, "type": type_}
        connection.execute(SQL.intern_route, {**named, "now": now})
        ((home,),) = connection.execute(SQL.find_route, named).fetchall()
        connection.execute(SQL.move_event, {"route": home, "ids": ids(numbers)})
        connection.execute(SQL.move_work, {"route": home, "ids": ids(numbers)})
    return len(work[:WORK_AT_ONCE])
