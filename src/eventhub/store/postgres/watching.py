"""What those ask of PostgreSQL who watch a hub: counts along indexes, and the log by its times and transactions."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Any, Final

from eventhub.store.contract import Store
from eventhub.store.messages import HUB
from eventhub.store.messaging import COUNTED
from eventhub.store.postgres.publishing import SQL
from eventhub.store.postgres.reading import same
from eventhub.store.rows import to_log
from eventhub.store.watching import (
    MOST_CLAIMS,
    MOST_COUNTED,
    MOST_DEATHS,
    MOST_TROUBLED,
    NEWS_REACH,
    LogNews,
    OpenCounts,
    Troubles,
    to_open_counts,
    to_troubles,
)

__all__ = ["PostgresWatching"]

_ROW: Final = 2
"""Where the row of the log begins in an answer."""


class PostgresWatching(Store):
    """The part of the PostgreSQL store that watchers use."""

    late = timedelta(seconds=20)

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...

    async def open_counts(self, *, limit: int = MOST_COUNTED, now: datetime | None = None) -> OpenCounts:
        return to_open_counts(
            ready=await self._read(SQL.ready_work, limit, HUB),
            held=await self._read(SQL.held_work, limit),
            messages=await self._read(SQL.open_messages, limit),
            claims=await self._read(SQL.open_claims, limit),
            oldest=await self._read(SQL.oldest_ready, now),
            limit=limit,
        )

    async def activity(self, since: datetime, until: datetime, step: timedelta) -> list[tuple[datetime, str, int]]:
        return [(row[0], row[1], row[2]) for row in await self._read(SQL.activity, since, until, step)]

    async def newest_log(self, limit: int, *, since: str | None = None) -> LogNews:
        oldest = 0 if since is None else int(since.partition(":")[0])
        rows = await self._read(SQL.newest_log, limit, since, NEWS_REACH, oldest)
        position, total = rows[0][:_ROW]
        entries = [(to_log(row[_ROW:-1], same), row[-1]) for row in reversed(rows) if total]
        return LogNews(entries, 0 if since is None or not total else total - len(entries), position)

    async def troubles(self, queue: str, *, silent: timedelta, now: datetime | None = None) -> Troubles:
        return to_troubles(
            (await self._read(SQL.recent_deaths, MOST_DEATHS, now))[0],
            (await self._read(SQL.standstill, COUNTED))[0],
            await self._read(SQL.troubled_subscribers, MOST_TROUBLED),
            (await self._read(SQL.count_subscribers, COUNTED))[0][0],
            await self._read(SQL.silent_claims, queue, silent, now, MOST_CLAIMS),
        )

    async def was_seen(self, queue: str, *, within: timedelta, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.seen_lately, queue, within, now))

    async def first_event_since(self, moment: datetime) -> int:
        ((found,),) = await self._read(SQL.first_event_since, moment)
        return int(found)
