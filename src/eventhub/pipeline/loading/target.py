"""What loading asks of a database, whichever engine it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.store.ledger import Dataset

__all__ = ["RouteName", "Target"]

RouteName = tuple[str, str, str]
"""A queue, its tags, sorted, with commas, and a type: a route of ordinary priority."""


class Target(ABC):
    """A database to load into, while it is entered. Errors are EventHubError with the remedy."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def routes(self, names: Sequence[RouteName]) -> list[int]:
        """The numbers of routes, which are made when they are new."""

    @abstractmethod
    def insert(self, dataset: Dataset, rows: pa.RecordBatch, *, copied: bool = False) -> int:
        """Insert rows as the table has them, but for those that are there; returns how many were not."""

    @abstractmethod
    def pass_ids(self, last: int) -> None:
        """Let ids of events and deliveries that are given out later be higher than this one."""

    @abstractmethod
    def next_entry(self) -> int:
        """The id that the next entry of the log gets."""

    @abstractmethod
    def append(self, events: pa.RecordBatch, entries: pa.RecordBatch, *, ids: int) -> int:
        """Store new events with all that happened to them, as one, under new ids; the first of these is returned.

        In the rows, ids of events and deliveries count from 0, and there are ``ids`` of them; entries of the log get
        theirs in their order. What is dead and was not retried gets into the dead letter queue.
        """
