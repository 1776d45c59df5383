"""Pruning in PostgreSQL: events in batches, days of the log as whole partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from eventhub.errors import StoreBusy
from eventhub.store.contract import Store
from eventhub.store.postgres.publishing import SQL
from eventhub.store.pruning import LastKey, OldDay, day_bounds

__all__ = ["PostgresPruning"]

R = TypeVar("R")


class PostgresPruning(Store):
    """The pruning part of the PostgreSQL store."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...

    async def old_event_days(self, before: datetime) -> list[OldDay]:
        return [OldDay(*row) for row in await self._read(SQL.old_event_days, before)]

    async def old_log_days(self, before: datetime, *, planned: bool = False) -> list[OldDay]:
        return [OldDay(*row) for row in await self._read(SQL.old_log_days, before, planned)]

    async def events_with_log(self, day: date) -> list[int]:
        return [row[0] for row in await self._read(SQL.events_with_log, *day_bounds(day))]

    async def prune_events(self, ids: Sequence[int], *, copied: int, log_copied: int) -> int:
        ((gone,),) = await self._read(SQL.prune_events, list(ids), copied, log_copied)
        return int(gone)

    async def _free_keys(self, before: datetime, after: LastKey | None, limit: int) -> tuple[int, LastKey | None]:
        start = after or (datetime(1, 1, 2, tzinfo=UTC), "", "")
        ((freed, seen, *last),) = await self._read(SQL.free_keys, before, *start, limit)
        return int(freed), (last[0], last[1], last[2]) if seen == limit else None

    async def prune_log(self, day: date, rows: Sequence[tuple[int, int]], *, copied: int) -> int:
        numbers, events = [number for number, _ in rows], [event for _, event in rows]
        ((gone,),) = await self._read(SQL.prune_log, numbers, events, *day_bounds(day), copied)
        return int(gone)

    async def drop_log_day(self, day: date, rows: int, *, copied: int) -> bool:
        async def work(connection: Any) -> bool:
            await connection.execute(SQL.be_brief)
            return bool(await connection.fetchval(SQL.drop_log_day, day, copied, rows))

        await self.open()
        try:
            return await self._transact(work)
        except StoreBusy:
            return False
