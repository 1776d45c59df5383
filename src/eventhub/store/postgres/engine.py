"""The PostgreSQL store: batches in one statement each, a pool of connections, the same contract as SQLite."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from eventhub.core.lifecycle import Bury, Complete, Reason
from eventhub.errors import StoreBusy
from eventhub.store import acts
from eventhub.store.acts import published_by
from eventhub.store.audit import Act
from eventhub.store.batching import Answer
from eventhub.store.claims import Held
from eventhub.store.columns import PlainEvents, bare_one, check, is_unchecked, routes_in
from eventhub.store.completions import CompletedTogether, Completions, completions
from eventhub.store.incarnations import Incarnation, Restored
from eventhub.store.limits import within_call
from eventhub.store.opening import shown
from eventhub.store.postgres import settling
from eventhub.store.postgres.audit import PostgresAudit, audited
from eventhub.store.postgres.buses import PostgresBuses
from eventhub.store.postgres.claiming import PostgresClaiming
from eventhub.store.postgres.connection import open_pool, translated, understood
from eventhub.store.postgres.delivering import PostgresDelivering
from eventhub.store.postgres.ledger import PostgresLedger
from eventhub.store.postgres.lending import Lending
from eventhub.store.postgres.memory import HubConnection, Incarnations, in_one_incarnation
from eventhub.store.postgres.messaging import PostgresMessaging
from eventhub.store.postgres.operating import PostgresOperating
from eventhub.store.postgres.pruning import PostgresPruning
from eventhub.store.postgres.publishing import (
    SQL,
    RouteRetired,
    is_plain,
    publish_arriving,
    publish_bare_one,
    publish_calls,
    publish_plain,
)
from eventhub.store.postgres.reading import PostgresReading
from eventhub.store.postgres.schema import migrate
from eventhub.store.postgres.server import Server
from eventhub.store.postgres.signals import POLL_SECONDS, Signals
from eventhub.store.postgres.watching import PostgresWatching
from eventhub.store.retirement import ROUTES_AT_ONCE, WORK_AT_ONCE
from eventhub.store.values import NewEvent, Published, Report, Route, Settled, Tended

__all__ = ["PostgresStore"]

R = TypeVar("R")
NEAR = 0.0005
"""Seconds of a round trip. A large batch that is written as it is checked takes three more than in one statement, which
is half of the time that it saves for a thousand events."""
FORGETTING = 0.9
"""What is left, after each batch, of the belief that the server is far."""
TRIES = 4
"""How often a transaction of ours that lost to a deadlock is tried before the caller hears of it."""


class PostgresStore(
    PostgresClaiming,
    PostgresReading,
    PostgresOperating,
    PostgresDelivering,
    PostgresMessaging,
    PostgresLedger,
    PostgresPruning,
    PostgresWatching,
    PostgresAudit,
    PostgresBuses,
):
    """Events in the schema ``eventhub`` of a PostgreSQL database, for any number of processes and hosts."""

    engine = "postgres"
    _checks_along = True

    def __init__(self, url: str, *, pool_size: int = 10, listen_url: str | None = None) -> None:
        super().__init__(url, lanes=2)
        self._pool_size = pool_size
        self._listen_url = listen_url
        self._server: Server
        self._lending: Lending
        self._signals: Signals
        self._incarnations = Incarnations(url, self._forget)
        self._way = 0.0
        """Seconds that the server took to begin the last transaction of a large batch."""

    # ------------------------------------------------------------------ life

    async def _open(self) -> None:
        with understood(self.url):
            self._server = Server(self.url, listen_url=self._listen_url)
            self._signals = Signals(self._server, self.wakeups, self._incarnations.check, self._fetch)
        pool = await open_pool(
            self._server, self._pool_size, connection_class=HubConnection, init=self._incarnations.check
        )
        self._incarnations.pooled = not self._server.keeps_sessions
        self._lending = Lending(pool, self._incarnations, only_writers=self._server.has_hosts)
        try:
            await migrate(self._server, pool)
            await self._lending.identify()
            await self._make_days()
        except BaseException:
            pool.terminate()
            raise

    async def _close(self) -> None:
        await self._signals.stop()
        await self._lending.close()

    async def _close_orphaned(self) -> None:
        """The sockets are those of a closed loop, and are closed when nobody refers to them any more."""

    def _forget(self) -> None:
        """The database is another incarnation: whoever waits looks for what it has."""
        self._lending.forget()
        self.wakeups.wake()

    async def incarnation(self) -> Incarnation:
        await self._read(SQL.check)  # notices one that is new
        return self._memory.incarnation

    @property
    def incarnation_met(self) -> Incarnation:
        return self._incarnations.current.incarnation

    async def begin_incarnation(self) -> Restored:
        await self.open()

        async def work(connection: Any) -> Restored:
            await connection.execute(SQL.hold_connections)
            here = (await connection.fetchrow(SQL.identify))[1]
            await connection.fetch(SQL.begin_incarnation, here, True)
            _, _, _, number, began_at = await connection.fetchrow(SQL.identify)
            after = await connection.fetchval(SQL.newest_id)
            ended, left = await connection.fetchrow(SQL.end_sessions)
            return Restored(incarnation=Incarnation(number, began_at, here), after=after, ended=ended, left=left)

        done = await self._transact(audited(acts.restored, work))
        await self._lending.look_anew()
        return done

    async def _make_days(self) -> None:
        if time.monotonic() >= self._memory.days_at:
            self._memory.days_at = time.monotonic() + 3600
            try:
                async with self._transaction() as connection:
                    await connection.execute(SQL.be_brief)
                    await connection.fetch(SQL.make_log_days)
            except StoreBusy:  # somebody reads all of the log; there are days enough until he has done
                self._memory.days_at = time.monotonic() + 60

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        with translated(self.url):
            return await self._lending.fetch(query, *args)

    async def _read(self, query: str, *args: Any) -> list[Any]:
        await self.open()
        return await self._fetch(query, *args)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        with translated(self.url):
            async with self._lending.connection() as connection, connection.transaction():
                yield connection

    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R:
        """Run work in a transaction, again when it lost to a deadlock."""
        with within_call():
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

    async def describe(self) -> dict[str, Any]:
        facts = await super().describe()
        return facts | {"pooler": self._server.pool, "wakeups": await self._signals.trial()}

    def _notify(self, queue: str | None) -> None:
        self._signals.send(queue)

    # -------------------------------------------------------------- publish

    @in_one_incarnation
    async def _publish_all(
        self, calls: list[Sequence[NewEvent]], now: datetime | None = None
    ) -> list[Answer[Published]]:
        one = bare_one(calls[0]) if len(calls) == 1 else None
        if one is not None and (route := self._memory.routes.get(one.route)) is not None:
            with translated(self.url), suppress(RouteRetired):
                return [[await publish_bare_one(self._lending, one, route, now, self._signals.carried)]]
        return await self._using_routes(routes_in(calls), lambda routes: self._publish_on(routes, calls, now))

    async def _publish_on(
        self, routes: dict[Route, int], calls: list[Sequence[NewEvent]], now: datetime | None
    ) -> list[Answer[Published]]:
        if is_unchecked(calls):
            if self._way < NEAR:
                return [await self._publish_unchecked(calls[0], routes, now)]
            self._way *= FORGETTING
            check(calls[0])
        if is_plain(calls):
            with translated(self.url):
                return await publish_plain(self._lending, calls, routes, now, self._signals.carried)
        return await self._transact(lambda connection: publish_calls(connection, calls, routes, now))

    async def _publish_unchecked(
        self, events: PlainEvents, routes: dict[Route, int], now: datetime | None
    ) -> Sequence[Published]:
        with translated(self.url):
            async with self._lending.connection() as connection:
                asked_at = time.monotonic()
                async with connection.transaction():
                    self._way = time.monotonic() - asked_at
                    return await publish_arriving(connection, events, routes, now, self._signals.carried)

    @in_one_incarnation
    async def _publish_acting(self, events: Sequence[NewEvent], act: Act, now: datetime | None) -> Sequence[Published]:
        async def publish_on(routes: dict[Route, int]) -> Sequence[Published]:
            async def work(connection: Any) -> Sequence[Published]:
                (answer,) = await publish_calls(connection, [events], routes, now)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return await self._transact(audited(published_by(act), work, now))

        return await self._using_routes(routes_in([events]), publish_on)

    @in_one_incarnation
    async def _publish_within(
        self, connection: Any, events: Sequence[NewEvent], now: datetime | None
    ) -> Sequence[Published]:
        if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
            raise TypeError(
                f"connection is a {type(connection).__module__}.{type(connection).__name__}; this store is PostgreSQL, "
                "so give an asyncpg connection to the same database."
            )
        if not connection.is_in_transaction():
            raise ValueError(
                "The connection is not in a transaction; start one with `async with connection.transaction():`."
            )
        with translated(self.url):
            await self._incarnations.check_foreign(connection, lambda: self._read(SQL.check))
        routes = await self._learn_routes(routes_in([events]))
        with translated(self.url):
            routes = await self._share_routes(connection, routes)
            (answer,) = await publish_calls(connection, [events], routes, now, shared=True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    # --------------------------------------------------------------- leases

    async def _extend(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        return await self._lengthen(SQL.extend, held, lease, now)

    async def _start(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        return await self._lengthen(SQL.start, held, lease, now)

    async def _lengthen(self, query: str, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]:
        ordered = sorted(held, key=lambda claim: claim.id)
        try:
            rows = await self._fetch(query, [c.id for c in ordered], [c.fence for c in ordered], lease, now)
        except StoreBusy:  # completions take rows as they lie, not by id: we may have waited for each other
            rows = []
        lost = {claim.id for claim in held} - {row[0] for row in rows}
        if lost:  # or extended by another call at the same moment, which hides the row from a statement that waited
            missed = [claim for claim in ordered if claim.id in lost]

            async def again(connection: Any) -> list[Any]:
                await connection.fetch(SQL.hold_deliveries, [c.id for c in missed])
                columns = [c.id for c in missed], [c.fence for c in missed]
                return await connection.fetch(query, *columns, lease, now)  # type: ignore[no-any-return]

            lost -= {row[0] for row in await self._transact(again)}
        return lost

    # --------------------------------------------------------------- settle

    @in_one_incarnation
    async def _settle(self, reports: list[Report], now: datetime | None) -> Sequence[Settled]:
        plain = completions(reports)
        settled = None if plain is None else await self._complete(reports, plain, now)
        if type(settled) is CompletedTogether:
            return settled
        if settled is None:
            settled = await self._settle_any(reports, now)
        again = settling.to_try_again(reports, settled)
        if again:
            answers = await self._settle_many(list(again.values()), now, hold=True)
            tried = dict(zip(again, answers, strict=True))
            settled = [tried.get(position, answer) for position, answer in enumerate(settled)]
        return settled

    async def _complete(
        self, reports: list[Report], plain: Completions, now: datetime | None
    ) -> Sequence[Settled] | None:
        """The common case: one statement is its own transaction. None if it is not the case after all."""
        if len(set(plain.fences)) > 1:
            return None
        try:
            with translated(self.url):
                at, accepted = await settling.complete_alike(self._lending, plain, now)
        except StoreBusy:  # it takes rows as they lie, and another who takes them by id may wait for it in turn
            return None
        if accepted is None:
            return CompletedTogether(plain.ids, at)
        with translated(self.url):
            return await settling.answers_to_alike(self._lending, reports, plain.fences[0], accepted, at)

    async def _settle_any(self, reports: list[Report], now: datetime | None) -> Sequence[Settled]:
        if all(type(report.outcome) is Complete and report.held.lane is None for report in reports):
            with translated(self.url):  # one statement again
                return await settling.complete(self._lending, reports, now)
        return await self._settle_many(reports, now)

    async def _settle_many(self, reports: list[Report], now: datetime | None, *, hold: bool = False) -> list[Settled]:
        routes = await self._learn_routes({report.again for report in reports if report.again is not None})
        settled, freed = await self._transact(
            lambda connection: settling.settle(connection, reports, routes, now, hold=hold)
        )
        self._memory.floors.free(freed)
        return settled

    # ----------------------------------------------------------------- tend

    @in_one_incarnation
    async def _tend(self, now: datetime | None, limit: int) -> Tended:
        await self._make_days()
        rows = await self._fetch(SQL.tend, now, limit)
        if any(row[0] == "set back" for row in rows):
            await self._fetch(SQL.follow_clock, now)
            rows += await self._fetch(SQL.tend, now, limit)
            rows = [row for row in rows if row[0] != "set back"]
        self._memory.floors.free([(row[1], row[2]) for row in rows if row[0] != "last"])
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
            return {number for number, _ in buried}, await settling.advance(
                connection, settling.heads_in(reports, buried), now
            )

        buried, freed = await self._transact(work)
        self._memory.floors.free(freed)
        return buried

    async def _recover_strays(self) -> int:
        most, typed = 0, []
        for number, queue, tags, priority, type_ in await self._fetch(SQL.stray_routes, ROUTES_AT_ONCE):
            if type_:
                typed.append(number)
            else:
                most = max(most, await self._move_work(number, queue, tuple(filter(None, tags.split(","))), priority))
        if typed:
            await self._fetch(SQL.return_routes, typed)
        if typed or most:
            self._announce(None)
        return most

    async def _move_work(self, route: int, queue: str, tags: tuple[str, ...], priority: int) -> int:
        work = (await self._fetch(SQL.stray_work, route, WORK_AT_ONCE))[:WORK_AT_ONCE]
        homes = {type_: Route(queue, tags, priority, type_) for _, type_ in work}
        numbers = await self._learn_routes(list(homes.values()))

        async def move(connection: Any) -> list[Any]:
            wanted = list(set(numbers.values()))
            if len(await connection.fetch(SQL.share_routes, wanted)) < len(wanted):
                return []  # somebody retires one just now: the next sweep finds all of it again
            places = [numbers[homes[type_]] for _, type_ in work]
            return await connection.fetch(SQL.move_work, [row[0] for row in work], places, route)  # type: ignore[no-any-return]

        moved = await self._transact(move) if work else []
        self._memory.floors.free([(row[0], row[1]) for row in moved])
        return len(moved)

    async def _retire_routes(self, after: int, idle: timedelta) -> tuple[list[int], int]:
        async def work(connection: Any) -> tuple[list[int], int]:
            if not await connection.fetchval(SQL.alone_with_routes):
                return [], 0
            idle_now = [row[0] for row in await connection.fetch(SQL.idle_routes, after, idle, ROUTES_AT_ONCE)]
            return idle_now, len(await connection.fetch(SQL.retire_routes, idle_now)) if idle_now else 0

        return await self._transact(work)

    async def _drop_routes(self, kept: timedelta) -> int:
        return len(await self._fetch(SQL.drop_routes, kept, ROUTES_AT_ONCE))

    async def _holders(self, queue: str) -> list[str]:
        return [row[0] for row in await self._fetch(SQL.holders, queue)]

    @in_one_incarnation
    async def _take_back(self, workers: Sequence[str], now: datetime | None) -> Tended:
        held = await self._fetch(SQL.held_by, list(workers))
        again = [row for row in held if row[5] is None or row[4] < row[5]]
        lost = [(Held(row[0], row[1], row[2]), row[3]) for row in held if row[5] is not None and row[4] >= row[5]]
        rows = await self._fetch(SQL.take_back, [r[0] for r in again], [r[1] for r in again], now)
        self._memory.floors.free([(row[1], row[2]) for row in rows])
        buried = await self._bury_lost(lost, now, by_lease=False) if lost else set()
        return Tended(abandoned=len(rows), buried=tuple(sorted(buried)))

    async def wait(self, queue: str, *, since: int, timeout: float, until_due: bool = True) -> bool:
        await self.open()  # a store that is closed listens no more
        self._signals.listen()
        if not self._signals.listening:
            timeout = min(timeout, POLL_SECONDS)
        return await super().wait(queue, since=since, timeout=timeout, until_due=until_due)
