"""Where time comes from: the database's clock in production, an injected one in tests, never two at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

__all__ = ["Clock", "ManualClock", "SystemClock"]


@runtime_checkable
class Clock(Protocol):
    """Anything with ``now()`` that gives an aware datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """This process's wall clock, for those who must name one."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved: time in tests is driven, not slept."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta | float) -> datetime:
        """Move forward by a timedelta, or by seconds; returns the new time."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self._now
