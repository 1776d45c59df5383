"""Connections that stay open, each with one task at a time, and nothing in between.

A pool of asyncpg resets a connection whenever it comes back, which is a round trip; who keeps a connection does not
pay for that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

__all__ = ["Held"]

T = TypeVar("T")


class Held(Generic[T]):
    """As many as are used at the same time: who finds none opens one more."""

    def __init__(self, open_one: Callable[[], Awaitable[T]]) -> None:
        self._open_one = open_one
        self._free: list[T] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[T]:
        found = self._free.pop() if self._free else await self._open_one()
        try:
            yield found
        finally:
            self._free.append(found)

    async def open(self, count: int) -> None:
        """See that so many are there."""
        while len(self._free) < count:
            self._free.append(await self._open_one())

    def all(self) -> list[T]:
        """Those that nobody uses now."""
        return self._free
