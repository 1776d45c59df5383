"""The buses of an SQLite file: who is alive, and what is ready for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import apsw

from eventhub.store.buses import ReadyEvent, dump_names, load_names
from eventhub.store.contract import Store
from eventhub.store.sqlite.connection import clock
from eventhub.store.sqlite.publishing import SQL

__all__ = ["SqliteBuses"]

R = TypeVar("R")
_MICROSECOND = timedelta(microseconds=1)


class SqliteBuses(Store):
    """The part of the SQLite store that buses use."""

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...

    async def ready(self, queue: str, *, after_id: int = 0, limit: int = 1000) -> list[ReadyEvent]:
        rows = await self._read(SQL.ready, queue=queue, after_id=after_id, limit=limit)
        return [
            ReadyEvent(row[0], row[1], None if row[2] is None else load_names(row[2]), row[3], bool(row[4]))
            for row in rows
        ]

    async def announce_bus(
        self, worker: str, queue: str, handlers: Sequence[str], *, lease: timedelta, now: datetime | None = None
    ) -> None:
        def work(connection: apsw.Connection, at: int) -> None:
            named = {"worker": worker, "queue": queue, "now": at}
            until = at + lease // _MICROSECOND
            connection.execute(SQL.announce_bus, {**named, "handlers": dump_names(handlers), "until": until})
            connection.execute(SQL.forget_buses, named)

        await self.open()
        await self._write(work, now=now)

    async def _heard_of(self, queue: str | None, now: datetime | None) -> list[tuple[str, str, str, bool]]:
        rows = await self._read(SQL.buses, queue=queue, now=clock(now))
        return [(row[0], row[1], row[2], bool(row[3])) for row in rows]
