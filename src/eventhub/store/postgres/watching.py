"""What those ask of PostgreSQL who watch a hub: counts along indexes, and the log by its times and transactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from eventhub.store.contract import Store
from eventhub.store.messages import HUB
from eventhub.store.messaging import COUNTED, NO_END
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

R = TypeVar("R")
_ROW: Final = 2
"""Where the row of the log begins in an answer."""


class PostgresWatching(Store):
    """The part of the PostgreSQL store that watchers use."""

    late = timedelta(seconds=20)

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...

    async def open_counts(self, *, limit: int = MOST_COUNTED, now: datetime | None = None) -> OpenCounts:
        ready, held, messages, claims, oldest = await self._watch(
            SQL.along_indexes,
            (SQL.ready_work, limit, HUB),
            (SQL.held_work, limit),
            (SQL.open_messages, limit),
            (SQL.open_claims, limit),
            (SQL.oldest_ready, now),
        )
        return to_open_counts(ready=ready, held=held, messages=messages, claims=claims, oldest=oldest, limit=limit)

    async def activity(self, since: datetime, until: datetime, step: timedelta) -> list[tuple[datetime, str, int]]:
        (rows,) = await self._watch(SQL.by_ranges, (SQL.activity, since, until, step))
        return [(row[0], row[1], row[2]) for row in rows]

    async def newest_log(self, limit: int, *, since: str | None = None) -> LogNews:
        question: tuple[Any, ...] = SQL.latest_log, limit, NEWS_REACH
        if since is not None:
            question = SQL.newest_log, limit, since, NEWS_REACH, int(since.partition(":")[0])
        (rows,) = await self._watch(SQL.by_ranges, question)
        position, total = rows[0][:_ROW]
        entries = [(to_log(row[_ROW:-1], same), row[-1]) for row in reversed(rows) if row[_ROW] is not None]
        return LogNews(entries, max((total or 0) - len(entries), 0), position)

    async def troubles(self, queue: str, *, silent: timedelta, now: datetime | None = None) -> Troubles:
        deaths, standstill, troubled, subscribers, claims = await self._watch(
            SQL.along_indexes,
            (SQL.recent_deaths, MOST_DEATHS, now),
            (SQL.standstill, COUNTED),
            (SQL.troubled_subscribers, MOST_TROUBLED),
            (SQL.count_subscribers, COUNTED),
            (SQL.silent_claims, queue, silent, now, MOST_CLAIMS),
        )
        return to_troubles(deaths[0], standstill[0], troubled, subscribers[0][0], claims)

    async def was_seen(self, queue: str, *, within: timedelta, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.seen_lately, queue, within, now))

    async def _watch(self, how: str, *questions: tuple[Any, ...]) -> list[list[Any]]:
        """The answers to several questions, planned as told."""

        async def work(connection: Any) -> list[list[Any]]:
            await connection.execute(how)
            return [await connection.fetch(*question) for question in questions]

        await self.open()
        return await self._transact(work)

    async def first_event_since(self, moment: datetime) -> int:
        ((found,),) = await self._read(SQL.first_event_since, moment)
        return int(found)

    async def _first_at(self, start: int, moment: datetime) -> int:
        rows = await self._read(SQL.first_at, start, moment)
        return int(rows[0][0]) if rows else NO_END

    async def _last_at(self, end: int, moment: datetime) -> int:
        rows = await self._read(SQL.last_at, end, moment)
        return int(rows[0][0]) if rows else 0
