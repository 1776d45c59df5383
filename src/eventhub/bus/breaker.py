"""A circuit breaker: a handler that fails for most events gets a rest, then one event to prove itself.

               more than half of >= 4 events failed within the window
      CLOSED ──────────────────────────────────────────────────────────▶ OPEN
         ▲                                                              ▲  │ the rest is over and
         │ the probe succeeded                      the probe failed    │  ▼ an event is admitted
         └──────────────────────────── HALF_OPEN ───────────────────────┘◀─┘

Time is an argument, in seconds on any clock that only moves forward. An event counts once, by its latest
attempt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from eventhub.core.checks import is_count, is_number
from eventhub.errors import SettingsError

__all__ = ["Breaker", "BreakerSettings", "BreakerState", "check_breaker"]


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Open when over ``failure_share`` failed of ``min_events`` or more in ``window``; times are seconds."""

    failure_share: float = 0.5
    min_events: int = 4
    window: float = 60.0
    open_for: float = 30.0
    probe_poll: float = 1.0
    """How long an event is put off while a probe is running: its end is not known in advance."""

    def __post_init__(self) -> None:
        if not is_number(self.failure_share) or not 0 <= self.failure_share < 1:
            raise SettingsError(
                f"failure_share is {self.failure_share!r}; give a share from 0 to below 1, such as 0.5."
            )
        if not is_count(self.min_events, least=1):
            raise SettingsError(f"min_events is {self.min_events!r}; give a whole number, 1 or more.")
        for name in ("window", "open_for", "probe_poll"):
            if not is_number(seconds := getattr(self, name)) or seconds <= 0:
                raise SettingsError(f"{name} is {seconds!r}; give seconds, more than 0.")


def check_breaker(value: Any) -> BreakerSettings | None:
    """The value itself if it is settings of a breaker, or None for no breaker."""
    if value is None or isinstance(value, BreakerSettings):
        return value
    raise SettingsError(f"breaker is {value!r}; give BreakerSettings(), with or without changes, or None for none.")


class Breaker:
    """The state machine of one subscription."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._results: dict[int, tuple[float, bool]] = {}  # event id → (when, failed), oldest first
        self._failed = 0
        self._open_until: float | None = None
        self._probe: int | None = None

    @property
    def state(self) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._probe is None else BreakerState.HALF_OPEN

    def wait(self, now: float) -> float:
        """Seconds until an event may be tried; 0 when one may be tried now."""
        if self._open_until is None:
            return 0.0
        if self._probe is not None:
            return self._settings.probe_poll
        return max(0.0, self._open_until - now)

    def admit(self, event_id: int) -> None:
        """The event is tried now, ``wait`` having said 0; while not closed it is the probe."""
        if self._open_until is not None:
            self._probe = event_id

    def withdraw(self, event_id: int) -> None:
        """The event's attempt ended without a result here; another one may be the probe."""
        if self._probe == event_id:
            self._probe = None

    def record(self, event_id: int, *, failed: bool, now: float) -> None:
        """How an admitted event went. Results of attempts that began before it opened are stale by then."""
        if self._open_until is None:
            self._count(event_id, failed, now)
        elif self._probe == event_id:
            self._probe = None
            self._open_until = now + self._settings.open_for if failed else None

    def _count(self, event_id: int, failed: bool, now: float) -> None:  # noqa: FBT001
        self._forget(event_id)
        for oldest, (when, _) in list(self._results.items()):
            if now - when < self._settings.window:
                break
            self._forget(oldest)
        self._results[event_id] = (now, failed)
        self._failed += failed
        total = len(self._results)
        if total >= self._settings.min_events and self._failed > self._settings.failure_share * total:
            self._results.clear()
            self._failed = 0
            self._open_until = now + self._settings.open_for

    def _forget(self, event_id: int) -> None:
        _, failed = self._results.pop(event_id, (0.0, False))
        self._failed -= failed
