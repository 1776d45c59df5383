"""The ledger of the lake and the locks of shared work in SQLite."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import apsw

from eventhub.store.contract import Store
from eventhub.store.ledger import Dataset, LakeCommit, LockHolder, Waiting, to_lake_commit
from eventhub.store.rows import from_micros, micros
from eventhub.store.sqlite.publishing import SQL

__all__ = ["SqliteLedger"]

R = TypeVar("R")
_MICROSECOND: Final = timedelta(microseconds=1)
_HORIZONS: Final = {
    "events": SQL.horizon_events,
    "event_log": SQL.horizon_event_log,
    "audit": SQL.horizon_audit,
}
_WAITING: Final = {"events": SQL.waiting_events, "event_log": SQL.waiting_event_log, "audit": SQL.waiting_audit}


class SqliteLedger(Store):
    """Positions are the ids of rows: one writer at a time gives them out and commits them in their order."""

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...

    async def horizon(self, dataset: Dataset) -> int:
        ((position,),) = await self._read(_HORIZONS[dataset])
        return int(position)

    async def origin(self) -> str:
        return f"sqlite:{await self.hub_id()}"

    async def lake_commits(self, dataset: Dataset, *, limit: int = 20) -> list[LakeCommit]:
        rows = await self._read(SQL.lake_commits, dataset=dataset, limit=limit)
        return [to_lake_commit(row, from_micros) for row in rows]

    async def intend_commit(self, dataset: Dataset, *, last: int, now: datetime | None = None) -> LakeCommit | None:
        def work(connection: apsw.Connection, at: int) -> LakeCommit | None:
            newest = connection.execute(SQL.lake_commits, {"dataset": dataset, "limit": 1}).fetchone()
            if newest is not None and newest[6] is None:
                return to_lake_commit(newest, from_micros)
            number, first = (0, 0) if newest is None else (newest[1], newest[3])
            if first >= last:
                return None
            connection.execute(SQL.intend_commit, (dataset, number + 1, first, last, at))
            return to_lake_commit((dataset, number + 1, first, last, None, at, None), from_micros)

        await self.open()
        return await self._write(work, now=now)

    async def finish_commit(self, dataset: Dataset, number: int, rows: int, *, now: datetime | None = None) -> bool:
        named = {"dataset": dataset, "number": number, "rows": rows}
        return bool(await self._one(SQL.finish_commit, named, now=now))

    async def restart_commits(
        self, dataset: Dataset, number: int, *, last: int, now: datetime | None = None
    ) -> LakeCommit:
        def work(connection: apsw.Connection, at: int) -> LakeCommit:
            connection.execute(SQL.forget_intention, {"dataset": dataset})
            connection.execute(SQL.intend_commit, (dataset, number, 0, last, at))
            return to_lake_commit((dataset, number, 0, last, None, at, None), from_micros)

        await self.open()
        return await self._write(work, now=now)

    async def reposition(self, dataset: Dataset) -> int:  # noqa: ARG002 - ids are the same everywhere
        return 0

    async def waiting(self, dataset: Dataset, position: int) -> Waiting:
        ((rows, oldest),) = await self._read(_WAITING[dataset], position=position)
        return Waiting(rows, None if oldest is None else from_micros(oldest))

    async def horizon_age(self) -> timedelta | None:
        return None  # whoever writes holds the lock of the file: nothing is committed out of order

    async def take_lock(self, name: str, owner: str, lease: timedelta, *, now: datetime | None = None) -> int | None:
        found = await self._one(SQL.take_lock, {"name": name, "owner": owner}, lease=lease, now=now)
        return None if found is None else int(found[0])

    async def keep_lock(self, name: str, fence: int, lease: timedelta, *, now: datetime | None = None) -> bool:
        return bool(await self._one(SQL.keep_lock, {"name": name, "fence": fence}, lease=lease, now=now))

    async def drop_lock(self, name: str, fence: int) -> None:
        await self._one(SQL.drop_lock, {"name": name, "fence": fence})

    async def lock_holder(self, name: str) -> LockHolder | None:
        rows = await self._read(SQL.lock_holder, name=name, now=micros(await self.now()))
        return LockHolder(rows[0][0], rows[0][1], from_micros(rows[0][2])) if rows else None

    async def _one(
        self, query: str, named: dict[str, Any], *, lease: timedelta | None = None, now: datetime | None = None
    ) -> tuple[Any, ...] | None:
        """One guarded statement and its row; times are taken when it runs."""

        def work(connection: apsw.Connection, at: int) -> tuple[Any, ...] | None:
            until = None if lease is None else at + lease // _MICROSECOND
            rows = connection.execute(query, {**named, "now": at, "until": until}).fetchall()
            return rows[0] if rows else None

        await self.open()
        return await self._write(work, now=now)
