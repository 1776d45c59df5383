"""Pruning in SQLite: in batches, each in the writer's next commit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeVar

import apsw

from eventhub.store.contract import Store
from eventhub.store.pruning import LastKey, OldDay, day_bounds
from eventhub.store.rows import from_micros, micros
from eventhub.store.sqlite.publishing import SQL
from eventhub.store.sqlite.publishing import ids as array

__all__ = ["SqlitePruning"]

R = TypeVar("R")
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC).date()


class SqlitePruning(Store):
    """The pruning part of the SQLite store."""

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...

    async def old_event_days(self, before: datetime) -> list[OldDay]:
        return _days(await self._read(SQL.old_event_days, before=micros(before)))

    async def old_log_days(self, before: datetime, *, planned: bool = False) -> list[OldDay]:
        return _days(await self._read(SQL.old_log_days, before=micros(before), planned=planned))

    async def events_with_log(self, day: date) -> list[int]:
        first, last = map(micros, day_bounds(day))
        return [number for (number,) in await self._read(SQL.events_with_log, first=first, last=last)]

    async def prune_events(self, ids: Sequence[int], *, copied: int, log_copied: int) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            named = {"ids": array(list(ids)), "copied": copied, "log_copied": log_copied}
            settled = [number for (number,) in connection.execute(SQL.settled_events, named)]
            if settled:
                connection.execute(SQL.end_keys, {"ids": array(settled), "now": at})
            for query in (SQL.prune_guards, SQL.drop_results, SQL.prune_events) if settled else ():
                connection.execute(query, {"ids": array(settled)})
            return len(settled)

        await self.open()
        return await self._write(work) if ids else 0

    async def _free_keys(self, before: datetime, after: LastKey | None, limit: int) -> tuple[int, LastKey | None]:
        created_at, scope, key = after or (None, "", "")
        start = -(2**63) if created_at is None else micros(created_at)

        def work(connection: apsw.Connection, _: int) -> tuple[int, LastKey | None]:
            named = {"before": micros(before), "created_at": start, "scope": scope, "key": key, "limit": limit}
            rows: list[Any] = connection.execute(SQL.old_keys, named).fetchall()
            free = [(row[0], row[1]) for row in rows if row[3]]
            connection.executemany(SQL.drop_keys, free)
            last = rows[-1] if len(rows) == limit else None
            return len(free), None if last is None else (from_micros(last[2]), last[0], last[1])

        await self.open()
        return await self._write(work)

    async def prune_log(self, day: date, rows: Sequence[tuple[int, int]], *, copied: int) -> int:
        first, last = map(micros, day_bounds(day))

        def work(connection: apsw.Connection, _: int) -> int:
            named = {"ids": array([number for number, _ in rows]), "copied": copied, "first": first, "last": last}
            return len(connection.execute(SQL.prune_log, named).fetchall())

        await self.open()
        return await self._write(work) if rows else 0

    async def drop_log_day(self, day: date, rows: int, *, copied: int) -> bool:  # noqa: ARG002 - there are no partitions
        return False


def _days(rows: list[tuple[Any, ...]]) -> list[OldDay]:
    return [OldDay(_FIRST + timedelta(days=day), *rest) for day, *rest in rows]
