"""The dead letter queue from outside: look, give another chance, throw away. It needs only the store."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final, Literal, Self

from eventhub.clock import Clock, check_clock
from eventhub.core.events import DeadEvent
from eventhub.errors import EventNotFound, NotDeadError, SettingsError
from eventhub.store import Store, open_store
from eventhub.store.values import DeadPage

__all__ = ["DLQInspector"]

MAX_PAGE: Final = 10_000
_MAX_ID: Final = 2**63 - 1
_MAX_DAYS: Final = 36_500


class DLQInspector:
    """The dead letters of a store. Given a path or URL it opens the store, and ``close()`` closes it."""

    def __init__(self, target: Store | str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._owned = not isinstance(target, Store)
        self.store: Store = target if isinstance(target, Store) else open_store(target)
        self._clock = check_clock(clock)

    async def close(self) -> None:
        """Close the store if this inspector opened it."""
        if self._owned:
            await self.store.close()

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def list(self, offset: int = 0, limit: int = 100, *, queue: str | None = None) -> DeadPage:
        """A page of dead events, newest event first, and how many there are in all."""
        _check_number("offset", offset, 0, _MAX_ID)
        _check_number("limit", limit, 1, MAX_PAGE)
        return await self.store.dead(queue=queue, offset=offset, limit=limit)

    async def get(self, event_id: int) -> DeadEvent:
        """The latest dead letter of an event; one that was retried since says when and by whom."""
        found = await self.store.dead_event(event_id) if _is_id(event_id) else None
        if found is None:
            raise await self._why_not(event_id)
        return found

    async def retry(self, event_id: int, *, by: str = "inspector") -> None:
        """Give one dead event a fresh start: no errors, no retries counted, due now."""
        revived = await self.retry_many([event_id], by=by) if _is_id(event_id) else ()
        if not revived:
            raise await self._why_not(event_id)

    async def retry_many(self, event_ids: Iterable[int], *, by: str = "inspector") -> set[int]:
        """The same for several; returns the ids that were dead and passes over the others."""
        wanted = [event_id for event_id in event_ids if _is_id(event_id)]
        return await self.store.retry_dead(wanted, by=by, now=self._clock.now() if self._clock else None)

    async def purge(
        self,
        older_than_days: float,
        *,
        by: Literal["dead_at", "created_at"] = "dead_at",
        queue: str | None = None,
    ) -> int:
        """Delete events that died (or were created) that many days ago or earlier; returns how many."""
        if by not in ("dead_at", "created_at"):
            raise SettingsError(f"by is {by!r}; give 'dead_at' or 'created_at'.")
        days = older_than_days
        if (
            isinstance(days, bool)
            or not isinstance(days, int | float)
            or not math.isfinite(days)
            or not 0 <= days <= _MAX_DAYS
        ):
            raise SettingsError(f"older_than_days is {days!r}; give days from 0 (all of them) to {_MAX_DAYS}.")
        now = self._clock.now() if self._clock else None
        return await self.store.purge_dead(older_than=timedelta(days=days), by=by, queue=queue, now=now)

    async def _why_not(self, event_id: Any) -> EventNotFound | NotDeadError:
        event = await self.store.event(event_id) if _is_id(event_id) else None
        if event is None:
            return EventNotFound(f"Event not found: {event_id}")
        return NotDeadError(f"Event {event_id} is not in DLQ (status: {event.status})")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_ID


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(f"{name} is {value!r}; give a whole number from {least:,} to {most:,}.")
