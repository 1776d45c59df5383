"""Leaving routes that nothing uses out of claims, and forgetting those that nothing names any more.

Nothing open is left on a retired route: whoever publishes keeps its routes locked until the commit, and whoever retires
one looks for what is open after it has got the lock. A publisher that remembers a retired route stores nothing on it,
and makes it known anew. Two cannot know: a program of an older version beside this one, and a caller's own transaction
whose snapshot is older. What they store on a retired route is found by the next sweep: the route comes back, and work
on one without a type, as older versions make them, moves to those of its types.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Final, Self

__all__ = ["ROUTES_AT_ONCE", "ROUTE_IDLE", "ROUTE_KEPT", "WORK_AT_ONCE", "Retirement"]

ROUTE_IDLE: Final = timedelta(minutes=1)
"""A route of which nothing is open is retired so long after its last event."""
ROUTE_KEPT: Final = timedelta(hours=1)
"""So long a retired route stays at least, so that all who claim hear of its end."""
ROUTES_AT_ONCE: Final = 500
"""Routes that are retired in one transaction."""
WORK_AT_ONCE: Final = 1000
"""Deliveries that are moved to other routes in one transaction."""


class Retirement(ABC):
    """The end of routes."""

    @abstractmethod
    async def open(self) -> Self:
        """Connect and bring the tables up to date; harmless when it is open already."""

    async def retire_routes(self, *, idle: timedelta = ROUTE_IDLE, kept: timedelta = ROUTE_KEPT) -> tuple[int, int]:
        """Leave routes that nothing uses out of claims, and forget those that nothing names; returns how many of each.

        A route is retired when nothing of it is open and its last event is older than ``idle``. It goes when it has
        been retired for ``kept`` and none of its events is there any more. Only routes of a type come to this; the
        others are as few as queues and subscribers.
        """
        await self.open()
        while await self._recover_strays() == WORK_AT_ONCE:
            continue
        retired, after = 0, 0
        while True:
            candidates, done = await self._retire_routes(after, idle)
            retired += done
            if len(candidates) < ROUTES_AT_ONCE:
                break
            after = candidates[-1]
        return retired, await self._drop_routes(kept)

    @abstractmethod
    async def _recover_strays(self) -> int:
        """Make what is open on retired routes claimable again; returns the most that was moved of one route."""

    @abstractmethod
    async def _retire_routes(self, after: int, idle: timedelta) -> tuple[list[int], int]:
        """The next routes that seem to be unused, at most ``ROUTES_AT_ONCE``, and how many of them were retired."""

    @abstractmethod
    async def _drop_routes(self, kept: timedelta) -> int:
        """Delete retired routes, at most ``ROUTES_AT_ONCE``."""
