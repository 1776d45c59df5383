"""The ledger of the lake and the locks of shared work in PostgreSQL."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Any, Final

from eventhub.store.contract import Store
from eventhub.store.ledger import Dataset, LakeCommit, LockHolder, Waiting, to_lake_commit
from eventhub.store.postgres.publishing import SQL
from eventhub.store.postgres.reading import same

__all__ = ["PostgresLedger"]

_REPOSITION: Final = {
    "events": SQL.reposition_events,
    "event_log": SQL.reposition_event_log,
    "audit": SQL.reposition_audit,
}
_WAITING: Final = {"events": SQL.waiting_events, "event_log": SQL.waiting_event_log, "audit": SQL.waiting_audit}


class PostgresLedger(Store):
    """Positions are transaction numbers, which are the same for all datasets."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...

    async def horizon(self, dataset: Dataset) -> int:  # noqa: ARG002 - one for all
        ((position,),) = await self._read(SQL.horizon)
        return int(position)

    async def origin(self) -> str:
        ((cluster,),) = await self._read(SQL.origin)
        return f"postgres:{cluster}"

    async def lake_commits(self, dataset: Dataset, *, limit: int = 20) -> list[LakeCommit]:
        return [to_lake_commit(row, same) for row in await self._read(SQL.lake_commits, dataset, limit)]

    async def intend_commit(self, dataset: Dataset, *, last: int, now: datetime | None = None) -> LakeCommit | None:
        await self._read(SQL.intend_commit, dataset, last, now)
        newest = await self.lake_commits(dataset, limit=1)
        return newest[0] if newest and newest[0].done_at is None else None

    async def finish_commit(self, dataset: Dataset, number: int, rows: int, *, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.finish_commit, dataset, number, rows, now))

    async def restart_commits(
        self, dataset: Dataset, number: int, *, last: int, now: datetime | None = None
    ) -> LakeCommit:
        (row,) = await self._read(SQL.restart_commits, dataset, number, last, now)
        return to_lake_commit(row, same)

    async def reposition(self, dataset: Dataset) -> int:
        await self._read(_REPOSITION[dataset])
        ((position,),) = await self._read(SQL.next_position)
        return int(position)

    async def waiting(self, dataset: Dataset, position: int) -> Waiting:
        ((rows, oldest),) = await self._read(_WAITING[dataset], position)
        return Waiting(rows, oldest)

    async def horizon_age(self) -> timedelta | None:
        ((age,),) = await self._read(SQL.horizon_age)
        return None if age is None else max(age, timedelta(0))

    async def take_lock(self, name: str, owner: str, lease: timedelta, *, now: datetime | None = None) -> int | None:
        rows = await self._read(SQL.take_lock, name, owner, lease, now)
        return int(rows[0][0]) if rows else None

    async def keep_lock(self, name: str, fence: int, lease: timedelta, *, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.keep_lock, name, fence, lease, now))

    async def drop_lock(self, name: str, fence: int) -> None:
        await self._read(SQL.drop_lock, name, fence)

    async def lock_holder(self, name: str) -> LockHolder | None:
        rows = await self._read(SQL.lock_holder, name)
        return LockHolder(*rows[0]) if rows else None
