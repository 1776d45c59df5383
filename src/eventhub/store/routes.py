"""The routes of a store by their tags, as far as they are known: looking one up never goes through all the others.

Routes are only ever added, with growing numbers, and are committed in that order. So what is new is what has a higher
number than the last one seen, and nothing that was learnt is ever wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["KnownRoute", "KnownRoutes", "by_priority"]


class KnownRoute(NamedTuple):
    """A row of the table."""

    id: int
    queue: str
    tags: str
    priority: int


class KnownRoutes:
    """All routes that were seen so far."""

    def __init__(self) -> None:
        self.last = 0
        self._by_id: dict[int, KnownRoute] = {}
        self._by_tag: dict[tuple[str, str | None], list[KnownRoute]] = {}

    def __getitem__(self, number: int) -> KnownRoute:
        return self._by_id[number]

    def learn(self, rows: Iterable[Sequence[Any]]) -> None:
        """Rows with higher numbers than ``last``, in order; another may have learnt them meanwhile."""
        for row in rows:
            route = KnownRoute(*row)
            if route.id > self.last:
                self._by_id[route.id] = route
                for tag in (None, *dict.fromkeys(route.tags.split(","))):
                    self._by_tag.setdefault((route.queue, tag), []).append(route)
                self.last = route.id

    def find(self, queue: str, tags: Iterable[str] | None) -> list[KnownRoute]:
        """The routes of a queue that have any of the tags; all of them when none are named."""
        if tags is None:
            return list(self._by_tag.get((queue, None), ()))
        return list({route.id: route for tag in tags for route in self._by_tag.get((queue, tag), ())}.values())


def by_priority(routes: Iterable[KnownRoute]) -> list[list[int]]:
    """The numbers of routes, each once, those of the highest priority first."""
    grouped: dict[int, dict[int, None]] = {}
    for route in routes:
        grouped.setdefault(route.priority, {})[route.id] = None
    return [list(grouped[priority]) for priority in sorted(grouped, reverse=True)]
