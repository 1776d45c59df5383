"""Three limits that cost no round trip: requests a second of a key, open deliveries, room on the disk.

Each answers in seconds: 0.0 means go on, more means refuse and say when to come again (``Retry-After``).
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["Backlog", "DiskReserve", "TokenBuckets"]

Seconds = Callable[[], float]

MOST_BUCKETS: Final = 10_000
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at something that changes slowly."""
LOOK_SHARE: Final = 20
"""A count that took t seconds is not repeated before this many times t, so counting stays a small share of the work."""
_ROUNDING: Final = 1e-6
_MEGABYTE: Final = 1_000_000


class TokenBuckets:
    """A bucket of ``burst`` tokens for every name, refilled with ``rate`` tokens a second; a rate of 0 sets no limit.

    A bucket is the one time at which it will be full again. Those used longest ago are forgotten, which fills them.
    """

    def __init__(self, rate: float, burst: int, *, clock: Seconds = time.monotonic, most: int = MOST_BUCKETS) -> None:
        self._each = 1 / rate if rate > 0 else 0.0
        self._room = (burst - 1) * self._each
        self._clock = clock
        self._most = most
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token of this name: 0.0, or the seconds until there is one."""
        if not self._each:
            return 0.0
        now = self._clock()
        full_at = max(self._full_at.get(name, now), now)
        wait = full_at - now - self._room
        if wait > _ROUNDING:
            return wait
        self._full_at[name] = full_at + self._each
        self._full_at.move_to_end(name)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        return len(self._full_at)


class Backlog:
    """Refuses events beyond ``limit`` open deliveries; a limit of 0 refuses none.

    Between two counts it adds what it let in itself. It counts in the background about once a second, and once more
    before it begins to refuse, so that work that was done meanwhile is seen. The limit may be overshot by what is on
    its way into the store while it counts, and by what other processes let in between two counts.
    """

    def __init__(self, store: Store, limit: int, *, clock: Seconds = time.monotonic) -> None:
        self._store = store
        self._limit = limit
        self._clock = clock
        self._counted = 0
        self._admitted = 0
        self._counted_at: float | None = None
        self._took = 0.0
        self._counting: asyncio.Task[None] | None = None

    async def admit(self, events: int = 1) -> float:
        """Let so many events in: 0.0, or the seconds after which it is worth asking again."""
        if not self._limit:
            return 0.0
        if self._counted_at is None:
            await asyncio.shield(self._count())
        elif self._age() >= max(LOOK_EVERY, self._pause):
            self._count()
        if not self._fits(events) and (self._counting or self._age() >= self._pause):
            await asyncio.shield(self._count())
        if not self._fits(events):
            return max(LOOK_EVERY, self._pause - self._age())
        self._admitted += events
        return 0.0

    async def close(self) -> None:
        """Wait for a count that is under way."""
        if self._counting:
            await asyncio.wait([self._counting])

    @property
    def _pause(self) -> float:
        return self._took * LOOK_SHARE

    def _age(self) -> float:
        return self._clock() - (self._counted_at or 0.0)

    def _fits(self, events: int) -> bool:
        return self._counted + self._admitted + events <= self._limit

    def _count(self) -> asyncio.Task[None]:
        if self._counting is None:
            self._counting = asyncio.create_task(self._recount())
            self._counting.add_done_callback(self._done)
        return self._counting

    async def _recount(self) -> None:
        started, before = self._clock(), self._admitted
        counted = await self._store.open_count(self._limit)
        # What was let in while it counted may be in the count or not: it is counted twice rather than not at all.
        self._counted, self._admitted = counted, self._admitted - before
        self._counted_at = self._clock()
        self._took = self._counted_at - started

    def _done(self, task: asyncio.Task[None]) -> None:
        self._counting = None
        if not task.cancelled():
            task.exception()  # whoever waits for it gets it; in the background the next count tells the same


class DiskReserve:
    """Refuses events when the disk of ``path`` has fewer than ``megabytes`` left; 0, or no path, refuses none."""

    def __init__(
        self,
        path: Path | None,
        megabytes: int,
        *,
        clock: Seconds = time.monotonic,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._path = None if path is None else path.absolute().parent
        self._least = megabytes * _MEGABYTE
        self._clock = clock
        self._free_bytes = free_bytes
        self._free = 0
        self._look_at = float("-inf")

    def admit(self) -> float:
        """0.0, or the seconds after which it is worth asking again."""
        left = self.left()
        return 0.0 if left is None or left >= 0 else LOOK_EVERY

    def left(self) -> int | None:
        """Bytes that are left above the reserve, fewer than none when it is touched; None when there is no reserve."""
        if self._path is None or not self._least:
            return None
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            self._free = self._least
            with suppress(OSError):  # a path that cannot be looked at is for the database to complain about
                self._free = self._free_bytes(self._path)
        return self._free - self._least
