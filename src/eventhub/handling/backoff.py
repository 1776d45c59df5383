"""How long to leave a database or a hub alone that is away: growing waits, spread so that not all come at once."""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """Seconds from ``first`` to ``most``, doubling, each somewhere between nothing and all of it."""

    def __init__(self, first: float = 0.05, most: float = 2.0) -> None:
        self._first = self._next = first
        self._most = most

    def pause(self, asked: float | None = None) -> float:
        """The next wait. One that was asked for is kept, and spread after it: many were asked for the same."""
        least = asked or 0.0
        spread, self._next = max(self._next, least), min(self._next * 2, self._most)
        return least + random.uniform(0.0, spread)  # noqa: S311 - no secret hangs on it

    def reset(self) -> None:
        """It worked: the next trouble starts small again."""
        self._next = self._first
