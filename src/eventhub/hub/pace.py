"""How much a dispatcher takes on: for one subscriber, beside other dispatchers, and among all its subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

__all__ = ["Hungry", "Tokens", "share_of", "shared_out"]

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
    """Somebody who has room for messages, and had more of them waiting at the last look."""

    @property
    def room(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def hungry(self) -> bool: ...


H = TypeVar("H", bound=Hungry)


def shared_out(lines: Sequence[H], places: int, turn: int) -> list[tuple[H, int]]:
    """Places for each: none gets so many that another would go without, and what nobody asks for is not kept free.

    Those who had more waiting get most; the quiet ones, who most often want nothing, share what is left, in turn.
    """
    active = [line for line in lines if line.in_flight or line.hungry]
    fair = max(1, places // max(1, len(active)))
    free = places - sum(line.in_flight for line in active)
    wanting = [(line, min(line.room, fair - line.in_flight if line in active else fair)) for line in lines]
    hungry = [(line, room) for line, room in wanting if room > 0 and line.hungry]
    quiet = [(line, room) for line, room in wanting if room > 0 and not line.hungry]
    for_quiet = free // 4 if hungry and quiet else free
    given: list[tuple[H, int]] = []
    for group, budget in ((hungry, free - for_quiet if quiet else free), (quiet, for_quiet)):
        left = budget
        start = turn % len(group) if group else 0
        each = max(1, budget // len(group)) if group else 0
        for line, room in group[start:] + group[:start]:
            count = min(room, each, left)
            if count > 0:
                given.append((line, count))
                left -= count
    return given
