"""Where time comes from: the database's clock in production, an injected one in tests, never two at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from eventhub.errors import SettingsError

__all__ = ["Clock", "ManualClock", "SystemClock", "check_clock"]


@runtime_checkable
class Clock(Protocol):
    """Anything with ``now()`` that gives an aware datetime."""

    def now(self) -> datetime: ...


def check_clock(clock: Clock | None) -> Clock | None:
    """The clock itself, if its times can be compared with those of a database."""
    if clock is None:
        return None
    now = clock.now() if isinstance(clock, Clock) else None
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise SettingsError(
            f"clock is {clock!r}, which says {now!r}; give an object whose now() is a datetime with a time zone, "
            "such as datetime.now(UTC), or None for the database's clock."
        )
    return clock


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
