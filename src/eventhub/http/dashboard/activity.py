"""The chart of the last hour: what was received, completed and failed in each ten seconds.

It is counted only while somebody looks. Steps that are over are counted once and remembered; the last ones are counted
again each time. What is missing of the hour is filled in from the newest on, a slice at a time; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from eventhub.core.events import Action
from eventhub.errors import EventHubError
from eventhub.http.bodies.overview import Chart, Rates
from eventhub.store import Store

__all__ = ["Activity"]

STEP: Final = 10
STEPS: Final = 360
SLICE: Final = 30
"""Steps that are counted at once when the past is filled in."""
RATE_STEPS: Final = 6
PAUSE_SHARE: Final = 4
"""A slice that took t seconds is followed by a pause of this many times t."""
KINDS: Final[dict[str, str]] = {
    Action.PUBLISHED: "received",
    Action.COMPLETED: "completed",
    Action.FAILED: "failed",
    Action.ABANDONED: "failed",
}

Counts = Counter[str]


class Activity:
    """Counts by step; a step is a number of ten seconds since the epoch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._over: dict[int, Counts] = {}
        self._recent: dict[int, Counts] = {}
        self._now = 0.0
        self._filling: asyncio.Task[None] | None = None

    async def look(self, now: datetime) -> None:
        """Count what is new, at least the last minute; the rest of the hour is filled in afterwards."""
        self._now = now.timestamp()
        current = self._current
        settled = int((now - self._store.late).timestamp()) // STEP  # below it, all is known
        first = min((step for step in range(current - RATE_STEPS, settled) if step not in self._over), default=settled)
        found = await self._count(first, current + 1)
        self._over.update({step: counts for step, counts in found.items() if step < settled})
        self._recent = {step: counts for step, counts in found.items() if step >= settled}
        self._over = {step: counts for step, counts in self._over.items() if step >= current - STEPS}
        if self._filling is None and self._missing():
            self._filling = asyncio.create_task(self._fill(), name="eventhub-chart")

    def rates(self) -> Rates:
        """Over the last minute and what has passed of the current step."""
        current = self._current
        total = sum((self._at(step) or Counter() for step in range(current - RATE_STEPS, current + 1)), Counter())
        seconds = self._now - (current - RATE_STEPS) * STEP
        return Rates(**{kind: round(total[kind] / seconds, 4) for kind in ("received", "completed", "failed")})

    def chart(self) -> Chart:
        """The last hour as far as it is known, the current step left out: it is not over."""
        current = self._current
        found = [self._at(step) for step in range(current - STEPS, current)]

        def of(kind: str) -> list[int | None]:
            return [None if counts is None else counts[kind] for counts in found]

        return Chart(
            step_seconds=STEP,
            from_=datetime.fromtimestamp((current - STEPS) * STEP, UTC),
            received=of("received"),
            completed=of("completed"),
            failed=of("failed"),
        )

    async def close(self) -> None:
        filling, self._filling = self._filling, None
        if filling is not None:
            filling.cancel()
            await asyncio.wait([filling])

    @property
    def _current(self) -> int:
        return int(self._now) // STEP

    def _at(self, step: int) -> Counts | None:
        return self._recent.get(step, self._over.get(step))

    def _missing(self) -> list[int]:
        """Steps of the hour that nobody has counted, newest first."""
        current = self._current
        return [step for step in range(current - 1, current - STEPS - 1, -1) if self._at(step) is None]

    async def _fill(self) -> None:
        try:
            with suppress(EventHubError):  # the next look tries again
                while missing := self._missing():
                    last = missing[0]
                    first = min(step for step in missing if step > last - SLICE)
                    started = time.monotonic()
                    counted = await self._count(first, last + 1)
                    self._over.update(counted)  # a look may have put another dict there meanwhile
                    await asyncio.sleep((time.monotonic() - started) * PAUSE_SHARE)
        finally:
            self._filling = None

    async def _count(self, first: int, last: int) -> dict[int, Counts]:
        """The steps from one to below another, those in which nothing happened too."""
        start, end = (datetime.fromtimestamp(step * STEP, UTC) for step in (first, last))
        counted: dict[int, Counts] = {step: Counter() for step in range(first, last)}
        for at, action, count in await self._store.activity(start, end, timedelta(seconds=STEP)):
            kind = KINDS.get(action)
            if kind is not None:
                counted[int(at.timestamp()) // STEP][kind] += count
        return counted
