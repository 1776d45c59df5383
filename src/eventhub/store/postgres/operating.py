"""Operations on PostgreSQL besides the work itself; those that touch ordering keys lock the lanes first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from eventhub.store import acts
from eventhub.store.audit import Act
from eventhub.store.claims import Held
from eventhub.store.operating import key_exists, last_sightings
from eventhub.store.postgres import settling
from eventhub.store.postgres.audit import audited, fetching
from eventhub.store.postgres.memory import Remembering
from eventhub.store.postgres.publishing import SQL
from eventhub.store.postgres.reading import same
from eventhub.store.rows import key_columns
from eventhub.store.values import ApiKey, Sighting, lane_id

__all__ = ["PostgresOperating"]

R = TypeVar("R")


class PostgresOperating(Remembering):
    """The operating half of the PostgreSQL store."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...

    async def _do(self, act: Act, query: str, *args: Any, now: datetime | None = None) -> list[Any]:
        """An act that is one statement, and its row in the audit log."""
        await self.open()
        return await self._transact(audited(act, fetching(query, *args), now))

    # ---------------------------------------------------------- dead letters

    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]:
        return await self._retry_dead(ids, lambda done: acts.retry_dead(row[0] for row in done[0]), by, now)

    async def _retry_dead(
        self, ids: Sequence[int], act: Act | Callable[[Any], Act], by: str, now: datetime | None
    ) -> set[int]:
        async def work(connection: Any) -> tuple[list[Any], settling.Freed]:
            letters = await connection.fetch(SQL.dead_standing, list(ids))
            whose = {row[5] for row in letters} - {None}
            if whose:  # nobody would ever take what is retried for a subscriber that is gone
                there = {row[0] for row in await connection.fetch(SQL.hold_subscribers, list(whose))}
                letters = [row for row in letters if row[5] is None or row[5] in there]
            if not letters:
                return [], []
            ordered = {row[2]: (row[2], row[3], row[4]) for row in letters if row[2] is not None}
            if ordered:
                await connection.execute(SQL.lock_lanes, *(list(c) for c in zip(*ordered.values(), strict=True)), True)
            await connection.execute(SQL.close_dead, [row[0] for row in letters], by, now)
            revived = await connection.fetch(SQL.revive, [row[0] for row in letters], by, now)
            await _return_routes(connection, {row[1] for row in revived})
            stepped = [row[0] for row in await connection.fetch(SQL.step_back, list(ordered))] if ordered else []
            return revived, await settling.advance(connection, dict.fromkeys(stepped), now)

        await self.open()
        rows, freed = await self._transact(audited(act, work, now))
        self._memory.floors.free([*((row[1], row[2]) for row in rows), *freed])
        self._announce(None)
        return {row[0] for row in rows}

    async def unpark(self, queue: str, ordering_key: str, *, by: str, now: datetime | None = None) -> bool:
        return await self._unpark(queue, ordering_key, acts.unpark(queue, ordering_key), by, now)

    async def _unpark(self, queue: str, ordering_key: str, act: Act, by: str, now: datetime | None) -> bool:
        lane = lane_id(queue, ordering_key)

        async def work(connection: Any) -> tuple[bool, settling.Freed]:
            await connection.fetch(SQL.hold_lanes, [lane])
            if not await connection.fetch(SQL.unpark, lane, by, now):
                return False, []
            return True, await settling.advance(connection, {lane: None}, now)

        await self.open()
        done, freed = await self._transact(audited(act, work, now))
        self._memory.floors.free(freed)
        self._announce(queue)
        return done

    async def reset(self, event_id: int, *, reason: str, now: datetime | None = None) -> bool:
        rows = await self._do(acts.reset(event_id, reason), SQL.reset, event_id, reason, now, now=now)
        self._memory.floors.free([(row[0], row[1]) for row in rows])
        self._announce(None)
        return bool(rows)

    # ---------------------------------------------------- results and guards

    async def record_results(
        self, held: Held, results: Sequence[tuple[str, str, str | None]], *, now: datetime | None = None
    ) -> bool:
        columns = [list(column) for column in zip(*results, strict=True)] or [[], [], []]
        rows = await self._read(SQL.record_results, held.id, held.fence, *columns, now)
        return len(rows) == len(results)

    async def guard(self, event_id: int, step: str, *, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.guard, event_id, step, now))

    # --------------------------------------------- workers seen and API keys

    async def see_workers(self, sightings: Sequence[Sighting], *, now: datetime | None = None) -> None:
        last = last_sightings(sightings)
        columns = [s.queue for s in last], [s.worker for s in last], [s.action for s in last]
        await self._read(SQL.see_workers, *columns, now)

    async def forget_workers(self, *, unseen: timedelta, now: datetime | None = None) -> int:
        return len(await self._read(SQL.forget_workers, unseen, now))

    async def add_key(self, key: ApiKey) -> None:
        if not await self._do(acts.create_key(key), SQL.add_key, *key_columns(key, same)):
            raise key_exists(key)

    async def revoke_key(self, key_id: str, now: datetime | None = None) -> bool:
        return bool(await self._do(acts.revoke_key(key_id), SQL.revoke_key, key_id, now, now=now))

    async def expire_key(self, key_id: str, at: datetime) -> bool:
        return bool(await self._do(acts.expire_key(key_id, at), SQL.expire_key, key_id, at))

    async def touch_keys(self, uses: Mapping[str, datetime]) -> None:
        await self._read(SQL.touch_keys, list(uses), list(uses.values()))

    async def end_session(self, session: str, *, ends: datetime, forget_before: datetime) -> None:
        await self._read(SQL.forget_sessions, forget_before)
        await self._read(SQL.end_session, session, ends)


async def _return_routes(connection: Any, routes: set[int]) -> None:
    """What has got a fresh start must be found by those who claim."""
    retired = [row[0] for row in await connection.fetch(SQL.hold_routes, sorted(routes)) if row[1]]
    if retired:
        await connection.execute(SQL.return_routes, retired)
