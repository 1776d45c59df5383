"""Operations on SQLite besides the work itself, each in the writer's next commit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import apsw

from eventhub.store import acts
from eventhub.store.claims import Held
from eventhub.store.contract import Store
from eventhub.store.operating import key_exists, last_sightings
from eventhub.store.rows import key_columns, micros
from eventhub.store.sqlite import dead
from eventhub.store.sqlite.audit import audited
from eventhub.store.sqlite.publishing import SQL
from eventhub.store.values import ApiKey, Sighting

__all__ = ["SqliteOperating"]

R = TypeVar("R")


class SqliteOperating(Store):
    """The operating half of the SQLite store."""

    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...

    # ---------------------------------------------------------- dead letters

    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]:
        await self.open()
        if not ids:
            return set()
        revived = await self._write(audited(acts.retry_dead, dead.retry_dead), ids, by, now=now)
        self._announce(None)
        return revived

    async def unpark(self, queue: str, ordering_key: str, *, by: str, now: datetime | None = None) -> bool:
        await self.open()
        done = await self._write(
            audited(acts.unpark(queue, ordering_key), dead.unpark), queue, ordering_key, by, now=now
        )
        self._announce(queue)
        return done

    async def reset(self, event_id: int, *, reason: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            row = connection.execute(SQL.reset, {"id": event_id}).fetchone()
            if row is None:
                return False
            event, attempts, fence = row
            connection.execute(SQL.write_log, (event, event_id, "RESET", None, attempts, fence, None, reason, None, at))
            return True

        await self.open()
        done = await self._write(audited(acts.reset(event_id, reason), work), now=now)
        self._announce(None)
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

    async def guard(self, event_id: int, step: str, *, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            return bool(connection.execute(SQL.guard, {"event_id": event_id, "step": step, "now": at}).fetchall())

        await self.open()
        return await self._write(work, now=now)

    # --------------------------------------------- workers seen and API keys

    async def see_workers(self, sightings: Sequence[Sighting], *, now: datetime | None = None) -> None:
        def work(connection: apsw.Connection, at: int) -> None:
            rows = [(seen.queue, seen.worker, seen.action, at) for seen in last_sightings(sightings)]
            connection.executemany(SQL.see_workers, rows)

        await self.open()
        await self._write(work, now=now)

    async def forget_workers(self, *, unseen: timedelta, now: datetime | None = None) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            before = at - unseen // timedelta(microseconds=1)
            return len(connection.execute(SQL.forget_workers, {"before": before}).fetchall())

        await self.open()
        return await self._write(work, now=now)

    async def add_key(self, key: ApiKey) -> None:
        def work(connection: apsw.Connection, _: int) -> bool:
            return bool(connection.execute(SQL.add_key, key_columns(key, micros)).fetchall())

        await self.open()
        if not await self._write(audited(acts.create_key(key), work)):
            raise key_exists(key)

    async def revoke_key(self, key_id: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            return bool(connection.execute(SQL.revoke_key, {"id": key_id, "now": at}).fetchall())

        await self.open()
        return await self._write(audited(acts.revoke_key(key_id), work), now=now)

    async def expire_key(self, key_id: str, at: datetime) -> bool:
        def work(connection: apsw.Connection, _: int) -> bool:
            return bool(connection.execute(SQL.expire_key, {"id": key_id, "at": micros(at)}).fetchall())

        await self.open()
        return await self._write(audited(acts.expire_key(key_id, at), work))

    async def touch_keys(self, uses: Mapping[str, datetime]) -> None:
        def work(connection: apsw.Connection, _: int) -> None:
            connection.executemany(SQL.touch_keys, [(key_id, micros(used)) for key_id, used in uses.items()])

        await self.open()
        await self._write(work)

    async def end_session(self, session: str, *, ends: datetime, forget_before: datetime) -> None:
        def work(connection: apsw.Connection, _: int) -> None:
            connection.execute(SQL.forget_sessions, {"before": micros(forget_before)})
            connection.execute(SQL.end_session, {"id": session, "ends": micros(ends)})

        await self.open()
        await self._write(work)
