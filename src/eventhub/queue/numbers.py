"""What a manager has done since it was made, counted in this process."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

__all__ = ["Latencies", "Numbers"]

BOUNDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    3600.0,
)


class Latencies:
    """A histogram of seconds, coarse but of fixed size."""

    __slots__ = ("buckets", "count", "longest", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.count += 1
        self.total += seconds
        if seconds > self.longest:  # noqa: PLR1730 - asked of every event: a call costs three times as much
            self.longest = seconds

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def share(self, share: float) -> float | None:
        """The bound below which this share of the values lies; None when there are none."""
        wanted, seen = share * self.count, 0
        for bound, count in zip(BOUNDS, self.buckets, strict=False):
            seen += count
            if seen and seen >= wanted:
                return min(bound, self.longest)
        return self.longest if self.count else None


class Numbers:
    """Counters of one manager; ``latency`` is from publish to the end of a handled attempt."""

    def __init__(self) -> None:
        self.claimed = 0
        self.handled = 0
        self.completed = 0
        self.failed = 0
        self.dead = 0
        self.released = 0
        self.lost = 0
        self.latency = Latencies()
        self.results: dict[str, dict[str, int]] = {}
        """How often each handler ended in success, in a transient or in a permanent error."""

    @property
    def failure_rate(self) -> float | None:
        """The share of handled attempts that did not complete their event."""
        return self.failed / self.handled if self.handled else None

    def __repr__(self) -> str:
        return (
            f"Numbers(claimed={self.claimed}, handled={self.handled}, completed={self.completed}, "
            f"failed={self.failed}, dead={self.dead}, released={self.released}, lost={self.lost})"
        )
