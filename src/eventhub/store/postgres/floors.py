"""Where to start looking for work on a route.

Claimed rows leave dead entries in the claim index, and while some session holds an old snapshot they cannot be cleaned
away: a claim would step over every one of them. So it starts at the floor, just above what was claimed last. Work below
the floor is looked for, too, as deep as it may lie and as often as that can be afforded:

    from the floor       at every claim: what was published since
    by id                at every claim: what this process made ready again below the floor, as the next of an ordering
                         key is; it is older than what follows from the floor on. What is too much to remember, or when
                         several routes are claimed together, lowers the floor instead
    from near below it   when there is nothing else, or ten times a second: what was committed late, after higher ids
    from the beginning   likewise: what other processes made ready again, and what came very late. If such a look is
                         dear, it is taken so rarely that a twentieth of the time goes into it, but several times a
                         minute all the same

What others claim is dead, too, and does not raise our floor. Who has stepped over much of it and found nothing asks
which id is the newest: after one more such look, the floor lies near below that id. How long it takes to ask is what
every statement takes; only what a look takes beyond that is dear.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from operator import itemgetter
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
"""Seconds of a look that are rationed."""
REMEMBERED: Final = 4096
"""Times at which something became ready again: more than there are while one look lasts."""
MOST_IDS: Final = 4096
"""Deliveries of a route that are remembered by id."""


class Look(msgspec.Struct, frozen=True, gc=False):
    """A look at a route that has begun: the event id that it starts from, and what was known then."""

    route: int
    start: int
    began: float
    frees: int = 0
    ids: tuple[int, ...] = ()
    """Events below the start to take before all others, the oldest first: nobody else is told of them."""


class _Route:
    """What is known of a route."""

    __slots__ = ("deep_at", "floor", "forgotten", "freed", "frees", "ids", "mark", "near_at", "owed", "took", "top")

    def __init__(self) -> None:
        self.floor = 0
        self.top = 0
        """Where the floor returns to after it was lowered: above it was nothing when it was set."""
        self.mark: tuple[float, int] | None = None
        """The newest id at some time."""
        self.near_at = self.deep_at = 0.0
        self.took = 0.0
        """Seconds of the last look through everything that found nothing."""
        self.frees = 0
        """How often something became ready again."""
        self.freed: list[tuple[int, int]] = []
        """When that was, by this count, and the lowest id from then on; as far as it is remembered."""
        self.forgotten = 0
        self.ids: list[int] = []
        """What became ready again below the floor, in order, until a look takes it by id."""
        self.owed = False

    @property
    def near(self) -> int:
        return max(self.floor - NEAR, 0)

    def free(self, event_ids: list[int]) -> None:
        """These became ready again."""
        room = MOST_IDS - len(self.ids)
        below = [number for number in event_ids if number < self.floor][:room]
        if below:
            self.ids += below
            self.ids.sort()
        if len(below) < len(event_ids):
            remembered = set(below)
            self.lower(min(number for number in event_ids if number not in remembered))

    def hand_out(self, start: int, most: int) -> tuple[int, ...]:
        """For a look from there on, which takes no more than so many. What it sees itself is remembered no longer."""
        if not self.ids:
            return ()
        count = min(bisect_left(self.ids, start), most)
        handed = self.ids[:count]
        del self.ids[:count]
        if self.ids and self.ids[0] >= start:
            self.forget_ids()
        return tuple(dict.fromkeys(handed))

    def forget_ids(self) -> None:
        """The floor is lowered instead."""
        if self.ids:
            self.lower(self.ids[0])
            self.ids.clear()

    def lower(self, event_id: int) -> None:
        self.frees += 1
        while self.freed and self.freed[-1][1] >= event_id:
            self.freed.pop()
        self.freed.append((self.frees, event_id))
        if len(self.freed) > REMEMBERED:
            self.forgotten, _ = self.freed.pop(0)
        self.floor = min(self.floor, event_id)

    def raise_to(self, event_id: int, since: int) -> None:
        """But not above what became ready in the meantime."""
        if since < self.forgotten:
            return
        if self.frees > since:
            _, lowest = self.freed[bisect(self.freed, since, key=itemgetter(0))]
            event_id = min(event_id, lowest)
        self.floor = event_id


class Floors:
    """Floors by route, for one process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._routes: dict[int, _Route] = {}
        self._clock = clock
        self._way = 0.0
        """Seconds to the server and back, as far as they are known."""

    def look(self, route: int, *, by_id: int = 0, everywhere: bool = False) -> Look:
        """Begin a look where it is time to look, which takes up to so many by id if there are such."""
        known, now = self._routes.get(route), self._clock()
        if known is None:
            return Look(route, 0, now)
        if not by_id:
            known.forget_ids()
        start = known.floor
        if everywhere or now >= known.deep_at:
            start = 0
            known.deep_at = now + min(max(LOOK_EVERY, 2 * known.took), LATEST)  # others need not do the same meanwhile
        elif now >= known.near_at:
            start = known.near
            known.near_at = now + LOOK_EVERY
        ids = known.hand_out(start, by_id)
        return Look(route, start, now, known.frees, ids)

    def look_below(self, look: Look, *, by_id: int = 0) -> Look | None:
        """Begin the next look, after one that found too little; None when there is no more to see for now."""
        known = self._of(look.route)
        if not by_id:
            known.forget_ids()
        start = min(known.near if self._is_dear(known.took) else 0, look.start)
        ids = known.hand_out(start, by_id)
        return Look(look.route, start, self._clock(), known.frees, ids) if ids or start < look.start else None

    def claimed(self, look: Look, last: int, *, all_of_it: bool = False) -> None:
        """The look took deliveries up to that of event ``last``; perhaps all that there were from its start on."""
        known = self._of(look.route)
        if last < look.start:  # all of it by id
            if not all_of_it:
                return
            last = look.start - 1
        known.top = max(known.top, last + 1)
        if look.start <= known.near:
            self._looked(known, look)
            known.raise_to(known.top if all_of_it else last + 1, look.frees)
        else:
            known.raise_to(max(known.floor, known.top if all_of_it else last + 1), look.frees)

    def missed(self, look: Look) -> bool:
        """The look found nothing from its start on. Returns whether that seems dear: then ``mark`` the newest id."""
        known = self._of(look.route)
        took = self._clock() - look.began
        if look.start <= known.floor:
            if look.start == 0 or self._is_dear(took):
                known.took = took
            if known.mark is not None and known.mark[0] <= look.began:
                known.top = max(known.top, known.mark[1] - NEAR)
            known.raise_to(max(known.floor, known.top), look.frees)
        if look.start <= known.near:
            self._looked(known, look)
        return self._is_dear(took)

    def mark(self, route: int, newest: int, *, way: float) -> None:
        """The newest of all events, and how long it took to ask. Later looks see all up to it that is not late."""
        self._of(route).mark = self._clock(), newest
        self._way = min(way, self._way or way)

    def passed_over(self, look: Look) -> None:
        """The look got nothing, whatever there was: the next one starts at the beginning."""
        if look.start:
            self._of(look.route).deep_at = 0.0

    def free(self, freed: Iterable[tuple[int, int]]) -> None:
        """Deliveries became ready again: (route, event id)."""
        by_route: dict[int, list[int]] = {}
        for route, event_id in freed:
            by_route.setdefault(route, []).append(event_id)
        for route, event_ids in by_route.items():
            self._of(route).free(event_ids)

    def failed(self, looks: Iterable[Look]) -> None:
        """Nobody knows what became of these looks: what they held was passed over by others."""
        for look in looks:
            self._of(look.route).lower(look.ids[0] if look.ids else look.start)

    def owed(self, route: int) -> float | None:
        """Seconds until a look from the beginning that could not be afforded now; told once, until it is ``paid``."""
        known = self._of(route)
        if known.owed or not self._is_dear(known.took):
            return None
        known.owed = True
        return max(known.deep_at - self._clock(), 0.0)

    def paid(self, route: int) -> None:
        """The time that was owed has come."""
        self._of(route).owed = False

    def _is_dear(self, seconds: float) -> bool:
        return seconds - self._way > DEAR

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
