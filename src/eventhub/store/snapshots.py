"""The whole store, portion by portion: for whoever compares everything it holds with what was promised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Literal

__all__ = ["SNAPSHOT_TABLES", "SnapshotTable", "Snapshots"]

SnapshotTable = Literal["events", "log", "deliveries", "dead_letters", "markers"]
SNAPSHOT_TABLES: Final[tuple[SnapshotTable, ...]] = ("events", "log", "deliveries", "dead_letters", "markers")


class Snapshots(ABC):
    """Bulk reading; each portion is true by itself, all of them together only while nobody writes."""

    @abstractmethod
    async def last_event(self) -> int:
        """The highest id of an event; 0 when there is none."""

    @abstractmethod
    async def logged_from(self, first: int) -> int | None:
        """The lowest id of an event in the log from ``first`` on; between two incarnations there are none."""

    @abstractmethod
    async def snapshot(self, table: SnapshotTable, first: int, last: int) -> list[tuple[Any, ...]]:
        """The rows about events from id ``first`` to below ``last``, as the queries name them; times are seconds."""
