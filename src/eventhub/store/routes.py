"""The routes of a store by their tags, as far as they are known: looking one up never goes through all the others.

A route is made when something is first published on it, and retired when nothing of it is open and nothing new has
come for a while; then it is left out of claims until it is used again. When nothing at all names it any more, it goes.
Changes have growing numbers and are committed in that order. So what is new is what has a higher number than the last
one seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from eventhub.core.matching import type_matcher

__all__ = ["KnownRoute", "KnownRoutes", "by_priority", "others", "to_types"]

CHOICES: Final = 64
"""Different choices of tags and types whose routes are remembered until one changes."""


class KnownRoute(NamedTuple):
    """A row of the table."""

    id: int
    queue: str
    tags: str
    priority: int
    type: str = ""
    retired: bool = False
    changed: int = 0


class KnownRoutes:
    """All routes that may have work, as of a change."""

    def __init__(self) -> None:
        self.last = 0
        self._by_id: dict[int, KnownRoute] = {}
        self._by_tag: dict[tuple[str, str | None], dict[int, KnownRoute]] = {}
        self._chosen: dict[tuple[str, frozenset[str] | None, frozenset[str] | None], tuple[int, list[list[int]]]] = {}
        """What was chosen, and as of which change: others may learn of one meanwhile."""

    def __getitem__(self, number: int) -> KnownRoute:
        return self._by_id[number]

    def __len__(self) -> int:
        return len(self._by_id)

    def learn(self, rows: Iterable[Sequence[Any]]) -> None:
        """Changes above ``last``, in order; another may have learnt them meanwhile."""
        for row in rows:
            route = KnownRoute(*row)
            if route.changed <= self.last:
                continue
            self.last = route.changed
            if route.retired:
                self._forget(route)
                continue
            self._by_id[route.id] = route
            for tag in _keys(route):
                self._by_tag.setdefault((route.queue, tag), {})[route.id] = route

    def _forget(self, route: KnownRoute) -> None:
        if self._by_id.pop(route.id, None) is not None:
            for tag in _keys(route):
                found = self._by_tag[route.queue, tag]
                del found[route.id]
                if not found:
                    del self._by_tag[route.queue, tag]

    def find(self, queue: str, tags: Iterable[str] | None, types: frozenset[str] | None = None) -> list[KnownRoute]:
        """The routes of a queue that have any of the tags, and a type that fits any of the patterns.

        All of them when no tags are named, or no patterns.
        """
        if tags is None:
            found = list(self._by_tag.get((queue, None), {}).values())
        else:
            named = (self._by_tag.get((queue, tag), {}) for tag in tags)
            found = list({number: route for routes in named for number, route in routes.items()}.values())
        if types is None:
            return found
        fits = type_matcher(types)
        return [route for route in found if fits(route.type)]

    def choose(self, queue: str, tags: frozenset[str] | None, types: frozenset[str] | None) -> list[list[int]]:
        """What ``find`` finds as ``by_priority``; who asks the same again need not wait for it."""
        asked, last = (queue, tags, types), self.last
        as_of, chosen = self._chosen.get(asked, (-1, []))
        if as_of != last:
            if len(self._chosen) >= CHOICES:
                self._chosen.clear()
            chosen = by_priority(self.find(queue, tags, types))
            self._chosen[asked] = last, chosen
        return chosen


def _keys(route: KnownRoute) -> Iterable[str | None]:
    return (None, *dict.fromkeys(route.tags.split(",")))


def by_priority(routes: Iterable[KnownRoute]) -> list[list[int]]:
    """The numbers of routes, each once, those of the highest priority first."""
    grouped: dict[int, dict[int, None]] = {}
    for route in routes:
        grouped.setdefault(route.priority, {})[route.id] = None
    return [list(grouped[priority]) for priority in sorted(grouped, reverse=True)]


def others(routes: Iterable[KnownRoute], patterns: frozenset[str]) -> list[int]:
    """The numbers of routes by type whose type none of the patterns takes."""
    fits = type_matcher(patterns)
    return [route.id for route in routes if route.type and not fits(route.type)]


def to_types(rows: Iterable[Sequence[Any]], known: KnownRoutes) -> list[tuple[str, int]]:
    """The types of (route, event id), each with its oldest event, the oldest first.

    A row without an event says that something is leased on its route: such types are left out.
    """
    found = [(known[number].type, event_id) for number, event_id in rows]
    leased = {name for name, event_id in found if event_id is None}
    oldest: dict[str, int] = {}
    for name, event_id in sorted((each for each in found if each[0] not in leased), key=itemgetter(1)):
        oldest.setdefault(name, event_id)
    return list(oldest.items())
