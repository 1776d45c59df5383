"""A clock that was set back, as a sweep notices it, and what follows for whatever waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["EPOCH", "STEP", "Step"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(seconds=5)
"""Less than this is no step."""


@dataclass(frozen=True, slots=True)
class Step:
    """The highest time that a sweep had seen, and the time now."""

    high: datetime
    now: datetime

    def moved(self, due: datetime | None) -> datetime | None:
        """When something is due that was scheduled before: as much earlier as the clock was set back."""
        return due if due is None or due <= self.high else due - (self.high - self.now)
