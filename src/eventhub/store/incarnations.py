"""Incarnations of a database: what a process remembers of it is good for one of them only.

A database that was restored, or that has failed over and lost its last commits, does not know what was given out since
the state that it is in. It is another incarnation: ids and fences go on above all that there may have been, and whoever
remembers anything of the one before forgets it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

__all__ = ["FENCES", "Incarnation", "Restored"]

FENCES: Final = 1_000_000
"""So far apart are the fences of two incarnations: a claim that one has lost is never current in the next."""


class Incarnation(msgspec.Struct, frozen=True):
    """One life of a database: its number, when it began in microseconds since 1970, and where it is."""

    number: int = 1
    began_at: int = 0
    place: str = ""
    standby: bool = False
    """It can only be read, and may be promoted at any moment."""

    @property
    def fence(self) -> int:
        """Below the fences of all claims that are made in it."""
        return (self.number - 1) * FENCES

    @property
    def began(self) -> datetime | None:
        """When it began; None for the first."""
        return datetime.fromtimestamp(self.began_at / 1e6, UTC) if self.began_at else None


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was done when somebody said that a database was restored."""

    incarnation: Incarnation
    after: int
    """Ids that are given out from now on are above this one."""
    ended: int = 0
    """Sessions of other processes that were ended, so that they look where they are."""
    left: int = 0
    """Sessions of other users, which could not be ended."""
