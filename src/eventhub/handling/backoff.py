"""How long to leave a database alone that is away: growing waits, spread so that not all come at once."""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """Seconds from ``first`` to ``most``, doubling, each somewhere between half of it and all of it."""

    def __init__(self, first: float = 0.05, most: float = 2.0) -> None:
        self._first = self._next = first
        self._most = most

    def pause(self) -> float:
        """The next wait."""
        pause, self._next = self._next, min(self._next * 2, self._most)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret hangs on it

    def reset(self) -> None:
        """It worked: the next trouble starts small again."""
        self._next = self._first
