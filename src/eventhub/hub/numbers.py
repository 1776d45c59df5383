"""What the hub of this process has done, in plain counters that cost next to nothing to raise.

The fan-out and the dispatcher raise them where things happen; whoever shows numbers reads them when it is asked.
Counters only grow, from the start of the process; ``in_flight`` goes up and down. All of it belongs to one event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

__all__ = ["LATENCY", "WAITED", "Distribution", "Numbers"]

LATENCY: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0)
"""Upper bounds in seconds for one request to a subscriber."""
WAITED: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0)
"""Upper bounds in seconds from publishing an event to its arrival at a subscriber."""

TOO_MANY: Final = 429
HUNDRED: Final = 100


class Distribution:
    """How often values fell below each bound, and their sum. ``counts`` has one place more, for the rest."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Numbers:
    """The counters of one process's hub."""

    __slots__ = (
        "attempts",
        "circuits_opened",
        "claimed",
        "dead",
        "delivered",
        "fanned_out_events",
        "fanned_out_messages",
        "in_flight",
        "latency",
        "lost",
        "released",
        "retried",
        "waited",
    )

    def __init__(self) -> None:
        self.fanned_out_events = 0
        """Markers that were turned into messages (also into none)."""
        self.fanned_out_messages = 0
        self.claimed = 0
        """Messages taken from the store."""
        self.in_flight = 0
        """Requests under way now: the dispatcher adds and takes away by itself."""
        self.delivered = 0
        self.retried = 0
        """Failed attempts after which there will be another."""
        self.released = 0
        """Claims given back uncharged, as at shutdown or while a circuit is open."""
        self.lost = 0
        """Outcomes that came too late: another attempt had begun, or an operator had decided."""
        self.circuits_opened = 0
        self.dead: Counter[str] = Counter()
        """Messages given up, by reason."""
        self.attempts: Counter[str] = Counter()
        """Requests that ended, by how: ``2xx`` to ``5xx``, ``429``, or the kind of failure."""
        self.latency = Distribution(LATENCY)
        self.waited = Distribution(WAITED)

    def fanned_out(self, events: int, messages: int) -> None:
        self.fanned_out_events += events
        self.fanned_out_messages += messages

    def attempted(self, status: int | None, failure: str | None, seconds: float) -> None:
        """A request ended: with an answer of this status, or without one by this kind of failure."""
        self.attempts[result_of(status, failure)] += 1
        self.latency.add(seconds)

    def arrived(self, waited: float) -> None:
        """A message was delivered and settled, so many seconds after its event was published."""
        self.delivered += 1
        self.waited.add(waited)

    def died(self, reason: str) -> None:
        """A message was given up."""
        self.dead[str(reason)] += 1


def result_of(status: int | None, failure: str | None) -> str:
    """One of a few words for how a request ended."""
    if status is None:
        return failure or "unknown"
    return "429" if status == TOO_MANY else f"{status // HUNDRED}xx"
