"""Where the fan-out begins to look for markers: below it there is none, and none will come.

Markers that were handed out leave dead entries in their index, which an old snapshot keeps there; a round steps over
them. But ids are given out before they are committed: a marker may still come below others that are gone already, and
the next of its key be committed right behind it, above them. A floor that followed what was handed out last would pass
over the first and hand out the second.

    round 1    hands out all it sees up to id 500, and notes that with its own transaction number: the mark
    round n    sees that every transaction up to that number has ended, and hands out all it sees

Whoever has taken a lower id than 500 has a lower transaction number than round 1, for publishers get theirs before
they take ids. So when round n looked, whatever may come below the mark was there, and with it the last of it is gone:
the mark becomes the floor.
"""

from __future__ import annotations

__all__ = ["MarkerFloor"]


class MarkerFloor:
    """The floor of one process; what others hand out only makes it lower than it could be."""

    def __init__(self) -> None:
        self.start = 0
        """The event id to look from."""
        self._mark: tuple[int, int] | None = None

    def passed(self, last: int, *, oldest_running: int, transaction: int) -> None:
        """A round from ``start`` on, now committed, handed out all it saw up to event ``last``.

        When it looked, ``oldest_running`` was the lowest number of a transaction that had not ended.
        """
        if self._mark is not None and self._mark[1] < oldest_running:
            self.start = max(self.start, min(self._mark[0], last + 1))
            self._mark = None
        if self._mark is None:
            self._mark = last + 1, transaction
