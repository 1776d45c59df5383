"""The raw limit: the same tables, rows and batches with nothing but the driver, one statement after another.

No checks, no objects, no fencing decisions in Python. What remains between this and our own figure is what Event Hub
costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from eventhub.bench.settings import Engine

__all__ = ["Raw", "open_raw"]


class Raw(ABC):
    """The bare driver on a database that has our tables. Times are seconds."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def publish(self, count: int, *, batch: int, connections: int) -> float:
        """Store so many events, each with its delivery and log row; ``batch`` events a commit."""

    @abstractmethod
    async def drain(self, count: int, *, batch: int, seconds: float | None = None) -> tuple[int, float]:
        """Claim and complete so many events with both log rows; how many it were when the time was up, and the time."""

    @abstractmethod
    async def latency(self, *, notified: bool) -> float | None:
        """From a commit to the claimed event in hand, after a NOTIFY or at once; None where nothing can notify."""

    @abstractmethod
    async def dead_page(self, limit: int, offset: int) -> float:
        """Read a page of dead letters and their total."""


def open_raw(engine: Engine, url: str) -> Raw:
    """The raw limit of an engine; only the driver in use is imported."""
    if engine == "sqlite":
        from eventhub.bench.raw_sqlite import RawSqlite

        return RawSqlite(url)
    from eventhub.bench.raw_postgres import RawPostgres

    return RawPostgres(url)
