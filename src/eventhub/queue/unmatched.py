"""Types that nobody handles: found from time to time, reported, and completed if told so.

A manager claims only what it has handlers for, and leaves the rest to others. A type counts as one that nobody handles
when its oldest event has stood there untouched for long, and none of the type was leased whenever somebody looked: who
handles it would have taken that one first, or is busy with others of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Literal

from eventhub.handling.logs import get_logger

__all__ = ["OnUnmatched", "Unmatched"]

log = get_logger("eventhub.queue")

OnUnmatched = Literal["report", "complete"]

MAX_TYPES: Final = 1000
"""Types that are watched at the same time."""


class Unmatched:
    """What one manager has seen of the types that it has no handlers for."""

    def __init__(self, rule: OnUnmatched, after: timedelta) -> None:
        self.completes = rule == "complete"
        self.after = after.total_seconds()
        self._seen: dict[str, tuple[int, float]] = {}
        """The oldest event of each type, and since when it has been that."""
        self._reported: set[str] = set()

    def look(self, queue: str, found: Iterable[tuple[str, int]], now: float) -> frozenset[str]:
        """The types of which nothing has moved for so long. Each is reported once, until it is gone."""
        oldest = dict(list(found)[:MAX_TYPES])
        self._seen = {
            name: self._seen[name] if self._seen.get(name, (None,))[0] == event_id else (event_id, now)
            for name, event_id in oldest.items()
        }
        self._reported &= oldest.keys()
        idle = frozenset(name for name, (_, since) in self._seen.items() if now - since >= self.after)
        for name in sorted(idle - self._reported):
            log.warning(
                "no handler",
                event_type=name,
                event_id=oldest[name],
                queue=queue,
                seconds=int(now - self._seen[name][1]),
                completed=self.completes,
            )
        self._reported |= idle
        return idle
