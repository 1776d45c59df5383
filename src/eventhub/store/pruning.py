"""Letting go of history that is safe in the lake: first settled events, then log rows whose event is gone.

    event of an old day ──settled, every log row copied──▶ gone, with its keys, guards and results
    log row of an old day ──its event gone──▶ gone; in PostgreSQL the day's partition as a whole

An event that is settled stays settled, so what one statement sees holds: no delivery, no marker and no open dead
letter, and no log row that the lake lacks. Whatever is open stays, with all its log rows. Only rows that the caller
names are taken: it has compared them with the lake's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import msgspec

__all__ = ["LastKey", "OldDay", "Pruning", "day_bounds"]

KEYS: Final = 2_000
"""So many idempotency keys are looked at in one transaction."""
LastKey = tuple[datetime, str, str]
"""When an idempotency key was used, whose it is, and the key: the order in which they are looked through."""


class OldDay(msgspec.Struct, frozen=True):
    """The rows of a dataset from one day: how many, between which ids, and how many of them must stay.

    Events stay while anything of them is open; log rows while their event is there.
    """

    day: date
    rows: int
    first: int
    last: int
    staying: int


def day_bounds(day: date) -> tuple[datetime, datetime]:
    """From its beginning to below its end, in UTC."""
    first = datetime.combine(day, time(), UTC)
    return first, first + timedelta(days=1)


class Pruning(ABC):
    """The operations; each opens the store when it is not open yet."""

    @abstractmethod
    async def old_event_days(self, before: datetime) -> list[OldDay]:
        """The days before this moment that have events, oldest first."""

    @abstractmethod
    async def old_log_days(self, before: datetime, *, planned: bool = False) -> list[OldDay]:
        """The days before this moment that have log rows, oldest first.

        With ``planned`` as if all events from before that moment that can go were gone already.
        """

    @abstractmethod
    async def events_with_log(self, day: date) -> list[int]:
        """The events that are still there and have log rows of a day: these rows stay."""

    @abstractmethod
    async def prune_events(self, ids: Sequence[int], *, copied: int, log_copied: int) -> int:
        """Delete those of the events that are settled and wholly copied, in one transaction; returns how many.

        ``copied`` and ``log_copied`` are the positions below which the lake has the events and the log.
        """

    async def free_keys(self, older_than: timedelta, *, now: datetime | None = None) -> int:
        """Let idempotency keys be used again whose event ended longer ago than that; returns how many."""
        before = (await self.now() if now is None else now) - older_than
        freed, last = await self._free_keys(before, None, KEYS)
        while last is not None:
            count, last = await self._free_keys(before, last, KEYS)
            freed += count
        return freed

    @abstractmethod
    async def now(self) -> datetime: ...
    @abstractmethod
    async def _free_keys(self, before: datetime, after: LastKey | None, limit: int) -> tuple[int, LastKey | None]:
        """Of so many keys behind that one; how many were freed, and the last that was looked at if there are more."""

    @abstractmethod
    async def prune_log(self, day: date, rows: Sequence[tuple[int, int]], *, copied: int) -> int:
        """Delete those of the log rows (id, event id) of a day whose event is gone, in one transaction."""

    @abstractmethod
    async def drop_log_day(self, day: date, rows: int, *, copied: int) -> bool:
        """Drop a day of the log at once.

        False when the day cannot be dropped: it has no partition of its own, others use it just now, something of it
        must stay, or there are not exactly ``rows`` rows. Then rows can be deleted.
        """
