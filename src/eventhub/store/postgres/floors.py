"""Where to start looking for work on a route.

Claimed rows leave dead entries in the claim index, and while some session holds an old snapshot they cannot be cleaned
away: a claim would step over every one of them. So it starts at the floor, just above what was claimed last. Work below
the floor is looked for, too, as deep as it may lie and as often as that can be afforded:

    from the floor       at every claim: what was published since, and what this process made ready again
    from near below it   when there is nothing else, or ten times a second: what was committed late, after higher ids
    from the beginning   likewise: what other processes made ready again, and what came very late. If such a look is
                         dear, it is taken so rarely that a twentieth of the time goes into it, but several times a
                         minute all the same
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Floors", "Look"]

LOOK_EVERY: Final = 0.1
LOOK_SHARE: Final = 20
LATEST: Final = 15.0
NEAR: Final = 10_000
"""Ids: more than those who write at the same time have in hand; so many dead entries take a few milliseconds."""
DEAR: Final = 0.01
"""Seconds that a look from the beginning may take before it is rationed."""
REMEMBERED: Final = 64


class Look(msgspec.Struct, frozen=True, gc=False):
    """A look at a route that has begun: the event id that it starts from, and what was known then."""

    route: int
    start: int
    began: float
    frees: int


class _Route:
    """What is known of a route."""

    __slots__ = ("cost", "deep_at", "floor", "freed", "frees", "near_at", "owed", "top")

    def __init__(self) -> None:
        self.floor = 0
        self.top = 0
        """Just above the highest that was claimed: where the floor returns to after it was lowered."""
        self.near_at = self.deep_at = 0.0
        self.cost = 0.0
        """Seconds of the last look from the beginning that found nothing."""
        self.frees = 0
        self.freed: deque[int] = deque(maxlen=REMEMBERED)
        """The lowest that became ready again, each of the last times that some did."""
        self.owed = False

    @property
    def near(self) -> int:
        return max(self.floor - NEAR, 0)

    @property
    def dear(self) -> bool:
        return self.cost > DEAR

    def raise_to(self, event_id: int, since: int) -> None:
        """But not above what was made ready in the meantime."""
        news = self.frees - since
        if news <= len(self.freed):
            self.floor = min([event_id, *islice(reversed(self.freed), news)])


class Floors:
    """Floors by route, for one process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._routes: dict[int, _Route] = {}
        self._clock = clock

    def look(self, route: int, *, everywhere: bool = False) -> Look:
        """Begin a look where it is time to look."""
        known, now = self._of(route), self._clock()
        start = known.floor
        if everywhere or now >= known.deep_at:
            start = 0
            known.deep_at = now + min(max(LOOK_EVERY, 2 * known.cost), LATEST)  # others need not do the same meanwhile
        elif now >= known.near_at:
            start = known.near
        return Look(route, start, now, known.frees)

    def look_below(self, look: Look) -> Look | None:
        """Begin the next look, after one that found too little; None when there is no more to see for now."""
        known = self._of(look.route)
        start = known.near if known.dear else 0
        return Look(look.route, start, self._clock(), known.frees) if start < look.start else None

    def claimed(self, look: Look, last: int) -> None:
        """The look took deliveries up to that of event ``last``."""
        known = self._of(look.route)
        known.top = max(known.top, last + 1)
        if look.start <= known.near:
            self._looked(known, look)
            known.raise_to(last + 1, look.frees)
        else:
            known.raise_to(max(known.floor, last + 1), look.frees)

    def missed(self, look: Look, *, among: int = 1) -> None:
        """The look found nothing from its start on. It was one ``among`` several in the same statement."""
        known = self._of(look.route)
        if look.start == 0:
            known.cost = (self._clock() - look.began) / among
        if look.start <= known.near:
            self._looked(known, look)
        else:
            self.passed_over(look)
        if look.start <= known.floor:
            known.raise_to(max(known.floor, known.top), look.frees)

    def passed_over(self, look: Look) -> None:
        """The look got nothing, whatever there was: the next one starts lower."""
        known = self._of(look.route)
        if known.dear:
            known.near_at = 0.0
        else:
            known.deep_at = 0.0

    def lower(self, freed: Iterable[tuple[int, int]]) -> None:
        """Deliveries became ready again: (route, event id)."""
        lowest: dict[int, int] = {}
        for route, event_id in freed:
            lowest[route] = min(event_id, lowest.get(route, event_id))
        for route, event_id in lowest.items():
            known = self._of(route)
            known.frees += 1
            known.freed.append(event_id)
            known.floor = min(known.floor, event_id)

    def owed(self, route: int) -> float | None:
        """Seconds until a look from the beginning that could not be afforded now; told once, until it is ``paid``."""
        known = self._of(route)
        if known.owed or not known.dear:
            return None
        known.owed = True
        return max(known.deep_at - self._clock(), 0.0)

    def paid(self, route: int) -> None:
        """The time that was owed has come."""
        self._of(route).owed = False

    def _of(self, route: int) -> _Route:
        known = self._routes.get(route)
        if known is None:
            known = self._routes[route] = _Route()
        return known

    def _looked(self, known: _Route, look: Look) -> None:
        now = self._clock()
        known.near_at = now + LOOK_EVERY
        if look.start == 0:
            known.deep_at = now + min(max(LOOK_EVERY, (now - look.began) * LOOK_SHARE), LATEST)
