"""Numbers by event type, bounded: past the limit new types are counted together as ``other``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

__all__ = ["OTHER", "Counters", "TypeCounters"]

MAX_TYPES: Final = 10_000
OTHER: Final = "other"


class Counters(msgspec.Struct):
    """What this bus saw of one event type since it was made.

    ``total`` counts events published through this bus; the others count what it settled, also of events that
    an earlier process or another one published.
    """

    total: int = 0
    retries: int = 0
    success_after_retry: int = 0
    dlq: int = 0


class TypeCounters(Mapping[str, Counters]):
    """Event type → counters. A type that was never seen reads as all zeros."""

    def __init__(self, max_types: int = MAX_TYPES) -> None:
        self._by_type: dict[str, Counters] = {}
        self._max_types = max_types

    def of(self, event_type: str) -> Counters:
        """The counters to add to."""
        found = self._by_type.get(event_type)
        if found is None:
            key = event_type if len(self._by_type) < self._max_types else OTHER
            found = self._by_type.setdefault(key, Counters())
        return found

    def __getitem__(self, event_type: str) -> Counters:
        return self._by_type.get(event_type) or Counters()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_type)

    def __len__(self) -> int:
        return len(self._by_type)

    def __contains__(self, event_type: object) -> bool:
        return event_type in self._by_type
