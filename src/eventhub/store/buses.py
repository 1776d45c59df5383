"""Which handlers an event of a bus needs, whose it is, and which buses are alive.

published ──▶ needs the handlers that matched, belongs to its bus ──▶ COMPLETED when all of them succeeded
                     │ its bus is gone
                     └──▶ another bus that has all of them claims it, and it belongs to that one; else it waits
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from eventhub.store.workers import is_dead

__all__ = [
    "BusInfo",
    "Buses",
    "MissingHandlers",
    "Names",
    "ReadyEvent",
    "RequiredHandlers",
    "dump_names",
    "lacking",
    "load_names",
]

MAX_LOOKED_AT: Final = 1000
"""Ready events of a bus that are looked at for missing handlers: the oldest."""

Names = tuple[str, ...]


class RequiredHandlers(msgspec.Struct, frozen=True, gc=False):
    """What a bus publishes with an event: the names of the handlers it needs, as they are stored, and its owner."""

    names: str
    owner: str


class ReadyEvent(NamedTuple):
    """A ready delivery that nobody has claimed: what a bus needs to know in order to decide whether to take it."""

    id: int
    type: str
    handlers: Names | None = None
    """The names of the handlers that it needs; None: whoever wants its type."""
    owner: str | None = None
    claimed_before: bool = False


class BusInfo(msgspec.Struct, frozen=True):
    """A bus that was heard of: alive unless its time is over or its process is known to be gone."""

    worker: str
    queue: str
    handlers: Names
    alive: bool


class MissingHandlers(msgspec.Struct, frozen=True):
    """Events of a bus that wait because no running bus has all their handlers."""

    queue: str
    handlers: Names
    """Those that are missing; all they need, when no bus runs."""
    events: int
    oldest_id: int


class Buses(ABC):
    """What buses ask of a store besides the work itself. Without a ``now`` the database's clock counts."""

    @abstractmethod
    async def ready(self, queue: str, *, after_id: int = 0, limit: int = 1000) -> list[ReadyEvent]:
        """Ready deliveries of a queue without claiming them, oldest first."""

    @abstractmethod
    async def announce_bus(
        self, worker: str, queue: str, handlers: Sequence[str], *, lease: timedelta, now: datetime | None = None
    ) -> None:
        """This bus is alive for at least a lease from now and has these handlers; a lease of 0 says that it stopped."""

    @abstractmethod
    async def _heard_of(self, queue: str | None, now: datetime | None) -> list[tuple[str, str, str, bool]]:
        """The buses of a queue, or all: worker, queue, handlers, and whether their time is not over."""

    async def buses(self, queue: str | None = None, *, now: datetime | None = None) -> list[BusInfo]:
        """The buses of a queue, or all, that were heard of."""
        return [
            BusInfo(worker, name, load_names(handlers), bool(alive) and not is_dead(worker))
            for worker, name, handlers, alive in await self._heard_of(queue, now)
        ]

    async def missing_handlers(self, *, now: datetime | None = None) -> list[MissingHandlers]:
        """Events that wait for handlers which no running bus has, among the oldest of each bus."""
        by_queue: dict[str, list[BusInfo]] = {}
        for bus in await self.buses(now=now):
            by_queue.setdefault(bus.queue, []).append(bus)
        found: list[MissingHandlers] = []
        for queue, buses in sorted(by_queue.items()):
            running = {bus.worker: bus.handlers for bus in buses if bus.alive}
            found += _missing(queue, await self.ready(queue, limit=MAX_LOOKED_AT), running)
        return found


def _missing(queue: str, events: Iterable[ReadyEvent], running: dict[str, Names]) -> list[MissingHandlers]:
    waiting: dict[Names, list[int]] = {}
    for event in events:
        if not event.handlers:
            continue
        owner = running.get(event.owner or "")
        candidates = list(running.values()) if owner is None else [owner]
        missing = min((lacking(event.handlers, names) for names in candidates), key=len, default=event.handlers)
        if missing:
            waiting.setdefault(missing, []).append(event.id)
    return [MissingHandlers(queue, names, len(ids), min(ids)) for names, ids in waiting.items()]


def lacking(required: Iterable[str], available: Iterable[str]) -> Names:
    """Which of the names are not there, each as often as it is missing."""
    return tuple((Counter(required) - Counter(available)).elements())


def dump_names(names: Iterable[str]) -> str:
    """Names as they are stored."""
    return msgspec.json.encode(list(names)).decode()


@lru_cache(4096)
def load_names(text: str) -> Names:
    """Names as they were stored; a text that was damaged names itself, so that nobody has such a handler."""
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except msgspec.MsgspecError:
        return (text,)
