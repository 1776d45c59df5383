"""The numbers of routes, as far as a process remembers them: what it publishes on is looked up once.

Somebody else may retire a route meanwhile. So whoever publishes locks the routes that it uses in the same statement;
when one is gone nothing is stored, and it is made known anew.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Final, TypeVar

from eventhub.errors import StoreBusy
from eventhub.store.postgres.memory import Remembering
from eventhub.store.postgres.publishing import SQL, RouteRetired
from eventhub.store.values import Route

__all__ = ["PostgresRoutes"]

R = TypeVar("R")
CACHE_SIZE: Final = 4096
"""Routes with a type that are remembered; the others are as few as queues and subscribers."""
TRIES: Final = 5
"""How often what was retired meanwhile is made known anew before the caller hears of it."""


class PostgresRoutes(Remembering):
    """The part of the PostgreSQL store that makes routes known."""

    @abstractmethod
    async def _fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def _learn_routes(self, wanted: Collection[Route]) -> dict[Route, int]:
        """The numbers of these routes, which are made, or come back, where they must."""
        memory = self._memory
        found = {route: memory.routes[route] for route in wanted if route in memory.routes}
        unknown = [route for route in wanted if route not in found]
        if not unknown:
            return found
        named = (
            [route.queue for route in unknown],
            [",".join(route.tags) for route in unknown],
            [route.priority for route in unknown],
            [route.type for route in unknown],
        )
        rows = await self._fetch(SQL.find_route, *named)
        for _ in range(TRIES):
            if len(rows) == len(unknown):
                break
            with suppress(StoreBusy):  # whoever retries dead letters takes these locks in the other order
                await self._fetch(SQL.intern_route, *named)
            memory.known_at = 0.0
            rows = await self._fetch(SQL.find_route, *named)
        else:
            raise _busy()
        learnt = {unknown[place - 1]: number for place, number in rows}
        if len(memory.routes) + len(learnt) > CACHE_SIZE:
            memory.routes = {route: number for route, number in memory.routes.items() if not route.type}
        memory.routes |= learnt
        return found | learnt

    async def _relearn_routes(self, wanted: Collection[Route]) -> dict[Route, int]:
        """The same, whatever is remembered of them."""
        for route in wanted:
            self._memory.routes.pop(route, None)
        return await self._learn_routes(wanted)

    async def _share_routes(self, connection: Any, numbers: dict[Route, int]) -> dict[Route, int]:
        """For a transaction that cannot be begun again: keep these from being retired, as far as it can see them.

        What it cannot see, because its snapshot is older or somebody retires it just now, is made known anew; should it
        be retired all the same before the commit, a sweep brings it back.
        """
        wanted = list(set(numbers.values()))
        if len(await connection.fetch(SQL.share_routes, wanted)) == len(wanted):
            return numbers
        return await self._relearn_routes(list(numbers))

    async def _using_routes(self, wanted: Collection[Route], work: Callable[[dict[Route, int]], Awaitable[R]]) -> R:
        """Do what stores events with the numbers of their routes, again when one of these was retired meanwhile."""
        numbers = await self._learn_routes(wanted)
        for _ in range(TRIES):
            try:
                return await work(numbers)
            except RouteRetired:
                numbers = await self._relearn_routes(wanted)
        raise _busy()


def _busy() -> StoreBusy:
    return StoreBusy("Routes were retired again and again while events were stored on them; nothing was. Try again.")
