"""The rarer settings of a bus, and the checks that say what would work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import msgspec

from eventhub.core.checks import is_count, is_number
from eventhub.errors import SettingsError

__all__ = ["Tuning", "check_choice", "check_seconds"]

_MIN_LEASE: Final = timedelta(milliseconds=50)


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How a bus works rather than what it promises; the defaults suit nearly everyone."""

    lease: timedelta = timedelta(seconds=60)
    """How long a claim outlives a process that died; it is extended while handlers run."""
    concurrency: int = 1000
    """How many events may be in their handlers at a time."""
    threads: int = 64
    """How many plain functions may run at a time, each in a thread; one that timed out no longer counts."""
    poll_interval: float = 1.0
    """Seconds between two looks for work that nobody announced, such as that of another process."""

    def __post_init__(self) -> None:
        if not isinstance(self.lease, timedelta) or self.lease < _MIN_LEASE:
            raise SettingsError(f"lease is {self.lease!r}; give a timedelta of 50 ms or more.")
        for name in ("concurrency", "threads"):
            if not is_count(getattr(self, name), least=1):
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give a whole number, 1 or more.")
        if not is_number(self.poll_interval) or self.poll_interval <= 0:
            raise SettingsError(f"poll_interval is {self.poll_interval!r}; give seconds, more than 0.")


def check_seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """The value as seconds; ``float("inf")`` stands for no limit."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (value >= 0 if zero else value > 0):
        least = "0 or more" if zero else "more than 0"
        raise SettingsError(f'{name} is {value!r}; give seconds, {least}, or float("inf") for no limit.')
    return float(value)


def check_choice(name: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise SettingsError(f"{name} is {value!r}; give {' or '.join(repr(choice) for choice in choices)}.")
