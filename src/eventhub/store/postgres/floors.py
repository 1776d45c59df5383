"""Where to start looking for work on a route.

Claimed rows leave dead entries in the claim index, and while some session holds an old snapshot they cannot be cleaned
away. A claim therefore starts at the floor, just above what was claimed last, and steps over them. Work below the floor
(a late commit, a retry that another process made ready) is found by looking from the start again: whenever there is
nothing above the floor, and otherwise so rarely that the look costs a small share of the time.
"""

from __future__ import annotations

import time

__all__ = ["Floors"]

LOOK_EVERY = 0.1
LOOK_SHARE = 20


class Floors:
    """Floors by route, for one process."""

    def __init__(self) -> None:
        self._floor: dict[int, int] = {}
        self._look_at: dict[int, float] = {}

    def start(self, route: int) -> int:
        """The event id to look from."""
        return self._floor.get(route, 0) if time.monotonic() < self._look_at.get(route, 0.0) else 0

    def claimed(self, route: int, *, started_at: int, last: int, took: float) -> None:
        """A claim that looked from ``started_at`` ended with event ``last``."""
        if started_at == 0:
            self._look_at[route] = time.monotonic() + max(LOOK_EVERY, took * LOOK_SHARE)
            self._floor[route] = last + 1
        else:
            self._floor[route] = max(self._floor.get(route, 0), last + 1)

    def lower(self, freed: list[tuple[int, int]]) -> None:
        """Deliveries became ready again: (route, event id)."""
        for route, event_id in freed:
            if event_id < self._floor.get(route, 0):
                self._floor[route] = event_id
