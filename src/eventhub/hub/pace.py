"""How much a dispatcher takes on: for one subscriber, beside other dispatchers, and among all its subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

__all__ = ["Hungry", "Tokens", "share_of", "shared_out"]

RESERVE: Final = 8
"""One place in so many is never given to the same line: one that hangs must leave some to others."""
QUICK_SHARE: Final = 2
"""One place in so many is for those who answer soon, and for one request to each of the others. Fewer would serve them,
but in many small claims, which cost more than few large ones."""
ALL: Final = 1_000_000
QUIET_SHARE: Final = 4
"""One free place in so many is for those who had nothing waiting at the last look."""
BURST_SECONDS: Final = 1.0
"""Requests of so many seconds may go out at once after a pause."""


class Tokens:
    """At most ``rate`` requests a second; None means as many as there are."""

    def __init__(self, rate: float | None, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._rate = rate
        self._most = 0.0 if rate is None else max(rate * BURST_SECONDS, 1.0)
        self._left, self._at = self._most, timer()

    @property
    def rate(self) -> float | None:
        return self._rate

    def left(self) -> int | None:
        """Requests that may go out now; None for no limit."""
        if self._rate is None:
            return None
        now = self._timer()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        return int(self._left)

    def wait(self) -> float:
        """Seconds until the next may go out."""
        if self._rate is None:
            return 0.0
        self.left()
        return max((1.0 - self._left) / self._rate, 0.0)

    def take(self, count: int) -> None:
        self._left -= count


def share_of(most: int, worker: str, workers: Sequence[str], subscriber: int) -> int:
    """This dispatcher's part of a limit that all of them share; the parts add up to the limit.

    The odd ones go to other dispatchers for each subscriber: so one that takes a single request at a time is served by
    one dispatcher, and not all such by the same.
    """
    if len(workers) <= 1:
        return most
    ranked = sorted(set(workers) | {worker}, key=lambda name: blake2b(f"{subscriber}:{name}".encode()).digest())
    whole, odd = divmod(most, len(ranked))
    return whole + (ranked.index(worker) < odd)


class Hungry(Protocol):
    """Somebody who has room for messages; had more of them waiting at the last look; does not answer soon."""

    @property
    def room(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def hungry(self) -> bool: ...
    @property
    def slow(self) -> bool: ...


H = TypeVar("H", bound=Hungry)


def shared_out(lines: Sequence[H], places: int, turn: int) -> tuple[list[tuple[H, int]], int]:
    """How many each may ask for, and how many there may be in all: none gets so many that others would go without.

    Those who had more waiting come first and get most. The quiet ones, who most often want nothing, are all asked and
    share what is left: what nobody takes is not kept free. Who is first among his like goes by ``turn``. However many
    are slow, they never have all places together: those who answer soon need few, but those at once.
    """
    active = sum(1 for line in lines if line.in_flight or line.hungry)
    fair = max(1, min(places // max(1, active), places - places // RESERVE if len(lines) > 1 else places))
    free = places - sum(line.in_flight for line in lines)
    for_slow = max(places - places // QUICK_SHARE - sum(line.in_flight for line in lines if line.slow), 0)
    hungry: list[tuple[H, int]] = []
    quiet: list[tuple[H, int]] = []
    for line in lines:
        room = min(line.room, fair - line.in_flight, _allowed(line, for_slow))
        if room > 0:
            (hungry if line.hungry else quiet).append((line, room))
    for_quiet = free // QUIET_SHARE if hungry and quiet else free
    given: list[tuple[H, int]] = []
    left = free - for_quiet if quiet else free
    each, odd = divmod(left, len(hungry)) if hungry else (0, 0)
    for place, (line, room) in enumerate(_from(hungry, turn)):
        count = min(room, each + (place < odd), left, _allowed(line, for_slow))
        if count > 0:
            given.append((line, count))
            left -= count
            for_slow -= min(count, for_slow) if line.slow else 0
    if quiet and free > 0:
        each = max(1, for_quiet // len(quiet))
        asked = [(line, min(room, each, _allowed(line, for_slow))) for line, room in _from(quiet, turn)]
        given += [(line, count) for line, count in asked if count > 0]
    return given, max(free, 0)


def _allowed(line: Hungry, for_slow: int) -> int:
    """One request may always be under way: nobody becomes quick without."""
    return max(for_slow, 1 - line.in_flight) if line.slow else ALL


def _from(group: list[tuple[H, int]], turn: int) -> list[tuple[H, int]]:
    start = turn % len(group) if group else 0
    return group[start:] + group[:start]
