"""What those ask of SQLite who watch a hub: counts along indexes, and times found by halves, as ids grow with them."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Any, Final

import apsw

from eventhub.store.contract import Store
from eventhub.store.messages import HUB
from eventhub.store.messaging import COUNTED, NO_END
from eventhub.store.rows import from_micros, micros, to_log
from eventhub.store.sqlite.connection import clock
from eventhub.store.sqlite.publishing import SQL
from eventhub.store.sqlite.thread import ConnectionThread
from eventhub.store.watching import (
    MOST_CLAIMS,
    MOST_COUNTED,
    MOST_DEATHS,
    MOST_TROUBLED,
    LogNews,
    OpenCounts,
    Troubles,
    to_open_counts,
    to_troubles,
)

__all__ = ["SqliteWatching"]

_MICROSECOND: Final = timedelta(microseconds=1)


class SqliteWatching(Store):
    """The part of the SQLite store that watchers use."""

    late = timedelta(0)
    """One writer at a time: rows appear in the order of their times."""
    _reader: ConnectionThread

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...

    async def open_counts(self, *, limit: int = MOST_COUNTED, now: datetime | None = None) -> OpenCounts:
        return to_open_counts(
            ready=await self._read(SQL.ready_work, limit=limit, hub=HUB),
            held=await self._read(SQL.held_work, limit=limit),
            messages=await self._read(SQL.open_messages, limit=limit),
            claims=await self._read(SQL.open_claims, limit=limit),
            oldest=await self._read(SQL.oldest_ready, now=clock(now)),
            limit=limit,
        )

    async def activity(self, since: datetime, until: datetime, step: timedelta) -> list[tuple[datetime, str, int]]:
        def work(connection: apsw.Connection) -> list[tuple[Any, ...]]:
            first, last = (_first_since(connection, SQL.log_ends, SQL.log_from, micros(at)) for at in (since, until))
            named = {"since": micros(since), "until": micros(until), "step": step // _MICROSECOND}
            return connection.execute(SQL.activity, {**named, "first": first, "last": last}).fetchall()

        await self.open()
        return [(from_micros(at), action, count) for at, action, count in await self._reader.run(work)]

    async def newest_log(self, limit: int, *, since: str | None = None) -> LogNews:
        rows = await self._read(SQL.newest_log, after=0 if since is None else int(since), limit=limit)
        entries = [(to_log(row[:-1], from_micros), row[-1]) for row in reversed(rows)]
        if not rows:
            return LogNews([], 0, since or "0")
        missed = 0 if since is None else rows[0][0] - int(since) - len(rows)  # ids have no gaps where they are young
        return LogNews(entries, missed, str(rows[0][0]))

    async def troubles(self, queue: str, *, silent: timedelta, now: datetime | None = None) -> Troubles:
        at = clock(now)
        before = at - silent // _MICROSECOND
        return to_troubles(
            (await self._read(SQL.recent_deaths, limit=MOST_DEATHS, now=at))[0],
            (await self._read(SQL.standstill, most=COUNTED))[0],
            await self._read(SQL.troubled_subscribers, limit=MOST_TROUBLED),
            (await self._read(SQL.count_subscribers, limit=COUNTED))[0][0],
            await self._read(SQL.silent_claims, queue=queue, before=before, limit=MOST_CLAIMS),
        )

    async def was_seen(self, queue: str, *, within: timedelta, now: datetime | None = None) -> bool:
        return bool(await self._read(SQL.seen_lately, queue=queue, after=clock(now) - within // _MICROSECOND))

    async def first_event_since(self, moment: datetime) -> int:
        await self.open()
        at = micros(moment)
        return await self._reader.run(lambda connection: _first_since(connection, SQL.event_ends, SQL.event_from, at))

    async def _first_at(self, start: int, moment: datetime) -> int:
        rows = await self._read(SQL.first_at, start=start, moment=micros(moment))
        return int(rows[0][0]) if rows else NO_END

    async def _last_at(self, end: int, moment: datetime) -> int:
        rows = await self._read(SQL.last_at, end=end, moment=micros(moment))
        return int(rows[0][0]) if rows else 0


def _first_since(connection: apsw.Connection, ends: str, from_id: str, moment: int) -> int:
    """The id of the first row at or after a time, found by halves; one above all ids when there is none."""
    low, last = connection.execute(ends).fetchone() or (None, None)
    if low is None or last is None:
        return 1
    high = last + 1
    while low < high:
        middle = (low + high) // 2
        met, at = connection.execute(from_id, {"id": middle}).fetchone() or (last, moment)
        if at < moment:
            low = met + 1
        else:
            high = middle
    return int(low)
