"""Lengths of time as people write them: 30m, 24h, 90d."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from eventhub.errors import SettingsError

__all__ = ["length", "since"]

_LENGTH: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])\Z")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def length(option: str, text: str) -> timedelta:
    """A number and a unit."""
    found = _LENGTH.match(text.strip())
    if found is None:
        raise SettingsError(f"--{option} is {text[:40]!r}; give a number and a unit, such as 30m, 24h, 90d or 2w.")
    number, unit = found.groups()
    try:
        return timedelta(**{_UNITS[unit]: float(number)})
    except OverflowError:
        raise SettingsError(f"--{option} is {text[:40]!r}, which is too long.") from None


def since(option: str, text: str, now: datetime) -> datetime:
    """A time that is given by itself, or by how long ago it was."""
    if _LENGTH.match(text.strip()):
        try:
            return now - length(option, text)
        except OverflowError:
            raise SettingsError(f"--{option} is {text[:40]!r}, which is before all times.") from None
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise SettingsError(
            f"--{option} is {text[:40]!r}; give how long ago, such as 2h, or a time such as 2026-05-04T12:00Z."
        ) from None
