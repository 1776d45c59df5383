"""The buses of a PostgreSQL database: who is alive, and what is ready for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from eventhub.store.buses import ReadyEvent, dump_names, load_names
from eventhub.store.contract import Store
from eventhub.store.postgres.publishing import SQL

__all__ = ["PostgresBuses"]


class PostgresBuses(Store):
    """The part of the PostgreSQL store that buses use."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...

    async def ready(self, queue: str, *, after_id: int = 0, limit: int = 1000) -> list[ReadyEvent]:
        return [
            ReadyEvent(row[0], row[1], None if row[2] is None else load_names(row[2]), row[3], row[4])
            for row in await self._read(SQL.ready, queue, after_id, limit)
        ]

    async def announce_bus(
        self, worker: str, queue: str, handlers: Sequence[str], *, lease: timedelta, now: datetime | None = None
    ) -> None:
        await self._read(SQL.announce_bus, worker, queue, dump_names(handlers), lease, now)
        await self._read(SQL.forget_buses, worker, queue, now)

    async def _heard_of(self, queue: str | None, now: datetime | None) -> list[tuple[str, str, str, bool]]:
        return [tuple(row) for row in await self._read(SQL.buses, queue, now)]
