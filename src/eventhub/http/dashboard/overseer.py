"""Looks at the hub as a whole for all who watch: as often as they ask, but never so often that it costs much."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from eventhub.http.bodies.overview import OpenMessages, Overview, QueueDepth, WorkDepth
from eventhub.http.dashboard.activity import Activity
from eventhub.http.dashboard.attention import Facts, attention, health
from eventhub.hub.crew import ROLES
from eventhub.hub.presence import is_present
from eventhub.store.watching import MOST_COUNTED, OpenCounts, Troubles

if TYPE_CHECKING:
    from eventhub.config import Settings
    from eventhub.http.limits import DiskReserve
    from eventhub.store import Store
    from eventhub.store.buses import MissingHandlers

__all__ = ["Overseer"]

LOOK_EVERY: Final = 0.9
"""A little less than the live stream's second, so that each of its rounds finds a new look."""
SLOW_EVERY: Final = 5.0
"""What changes slowly is not asked more often than this."""
LOOK_SHARE: Final = 20
"""A look that took t seconds is not repeated before this many times t, so that watching stays a small share."""
SILENT: Final = timedelta(minutes=5)


class Overseer:
    """The last look of one process; all who watch share it."""

    def __init__(self, store: Store, settings: Settings, disk: DiskReserve) -> None:
        self._store = store
        self._settings = settings
        self._disk = disk
        self._activity = Activity(store)
        self._looking = asyncio.Lock()
        self._look_at = self._slow_at = float("-inf")
        self._facts: Facts | None = None
        self._slow: _Slow | None = None

    async def look(self) -> Overview:
        """How the hub stands, as of a second ago at most unless a look takes long; raises when the database is away."""
        async with self._looking:
            started = time.monotonic()
            if self._facts is None or started >= self._look_at:
                self._facts = await self._find()
                await self._activity.look(self._facts.at)
                ended = time.monotonic()
                self._look_at = ended + max(LOOK_EVERY - (ended - started), (ended - started) * LOOK_SHARE)
            return self._overview(self._facts)

    def last(self) -> Overview | None:
        """The last look, when the database does not answer any more; None when there was none."""
        return None if self._facts is None else self._overview(replace(self._facts, database_ms=None))

    async def close(self) -> None:
        await self._activity.close()

    async def _find(self) -> Facts:
        store = self._store
        started = time.perf_counter()
        await store.check()
        milliseconds = (time.perf_counter() - started) * 1000
        at = await store.now()
        found = await store.open_counts()
        slow = await self._slowly()
        return Facts(
            at=at,
            database_ms=milliseconds,
            open=found,
            troubles=slow.troubles,
            work_queue=self._settings.work_queue,
            worker_seen=slow.worker_seen,
            fanout=await store.fanout_waiting(MOST_COUNTED),
            roles=slow.roles,
            backlog=await self._backlog(found),
            disk_left=self._disk.left(),
            horizon_age=slow.horizon_age,
            copied_at=slow.copied_at,
            missing_handlers=slow.missing_handlers,
        )

    async def _slowly(self) -> _Slow:
        """What changes slowly, as it was found a few seconds ago at most."""
        started = time.monotonic()
        if self._slow is None or started >= self._slow_at:
            self._slow = await self._find_slow()
            took = time.monotonic() - started
            self._slow_at = started + max(SLOW_EVERY, took * LOOK_SHARE)
        return self._slow

    async def _find_slow(self) -> _Slow:
        store, queue = self._store, self._settings.work_queue
        here = self._settings.role_names
        roles = [role for role in ROLES if role in here or await is_present(store, role)]
        copies = await store.lake_commits("event_log", limit=2)
        return _Slow(
            troubles=await store.troubles(queue, silent=SILENT),
            worker_seen=await store.was_seen(queue, within=SILENT),
            roles=frozenset(roles),
            horizon_age=await store.horizon_age(),
            missing_handlers=await store.missing_handlers(),
            copied_at=max((copy.done_at for copy in copies if copy.done_at is not None), default=None),
        )

    async def _backlog(self, found: OpenCounts) -> tuple[int, int] | None:
        limit = self._settings.max_backlog
        if not limit:
            return None
        kinds = (found.ready, found.waiting, found.behind, found.leased, found.messages)
        counted = sum(sum(counts.values()) for counts in kinds)
        return (await self._store.open_count(limit) if found.more else counted, limit)

    def _overview(self, facts: Facts) -> Overview:
        found, messages = facts.open, facts.open.messages
        ages = [*found.oldest_work_seconds.values(), found.oldest_message_seconds]
        return Overview(
            at=facts.at,
            rates=self._activity.rates(),
            chart=self._activity.chart(),
            depth=_depth(found),
            messages=OpenMessages(**messages, more=sum(messages.values()) >= MOST_COUNTED),
            oldest_waiting_seconds=max((age for age in ages if age is not None), default=None),
            in_flight=sum(found.leased.values()) + messages["leased"],
            dead_letters=facts.troubles.dead_letters,
            health=health(facts),
            attention=attention(facts),
        )


class _Slow(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked every few seconds only."""

    troubles: Troubles
    worker_seen: bool
    roles: frozenset[str]
    horizon_age: timedelta | None
    copied_at: datetime | None
    missing_handlers: list[MissingHandlers]


def _depth(found: OpenCounts) -> WorkDepth:
    names = sorted({*found.ready, *found.waiting, *found.behind, *found.leased})
    queues = [
        QueueDepth(
            queue=name,
            pending=found.ready.get(name, 0) + found.waiting.get(name, 0) + found.behind.get(name, 0),
            processing=found.leased.get(name, 0),
            retry=found.waiting.get(name, 0),
            oldest_waiting_seconds=found.oldest_work_seconds.get(name),
        )
        for name in names
    ]
    return WorkDepth(
        pending=sum(queue.pending for queue in queues),
        processing=sum(queue.processing for queue in queues),
        retry=sum(queue.retry for queue in queues),
        queues=queues,
        more=found.more,
    )
