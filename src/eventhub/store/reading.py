"""What can be asked of every store, without changing anything in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self

from msgspec.structs import replace

from eventhub.core.events import DeadEvent, LogEntry, QueuedEvent
from eventhub.core.matching import RESERVED
from eventhub.store.values import ApiKey, Current, DeadPage, EventFilter, Orphan, QueueStats, WorkerSeen

__all__ = ["Reading", "floors"]

DISORDER: Final = timedelta(seconds=1)
"""So far apart in time may events be that have their ids in the other order."""
SMALLEST_PAGE: Final = 100
NO_END: Final = 2**63 - 1
NO_BEGINNING: Final = -(2**63)
DEPTH: Final = 10_000
"""So many ids below its beginning a list that is merged from several is looked for at first."""


def floors(top: int) -> Iterator[int]:
    """How far down to look for a page that begins below an id: ten times as far each time, and at last to the end."""
    depth = DEPTH
    while depth < top:
        yield top - depth
        depth *= 10
    yield NO_BEGINNING


class Reading(ABC):
    """The questions; each opens the store when it is not open yet."""

    @abstractmethod
    async def open(self) -> Self:
        """Connect and bring the tables up to date; harmless when it is open already."""

    # ------------------------------------------------------------- the work

    @abstractmethod
    async def next_due(self) -> float | None:
        """Seconds until the next retry is due or the next lease ends; None when there is neither."""

    @abstractmethod
    async def ready_routes(
        self, queue: str, *, most: int = 1, tags: Iterable[str] | None = None
    ) -> list[tuple[str, ...]]:
        """The sets of tags that have something ready in a queue: highest priority first, then oldest first.

        With ``tags`` only sets with any of them, and no others are looked at.

        Each set stands there once for every delivery that is ready, at most ``most`` times. A retry that is due
        counts once it was tended.
        """

    @abstractmethod
    async def ready_types(self, queue: str, *, unless: frozenset[str] = frozenset()) -> list[tuple[str, int]]:
        """The types that have something ready in a queue, each with its oldest event, the oldest first.

        Types that any of the patterns in ``unless`` takes are left out, and not looked at. Left out are also those of
        which anything is leased: somebody handles them.
        """

    @abstractmethod
    async def current(self, ids: Sequence[int]) -> dict[int, Current]:
        """How deliveries stand; those that are settled or unknown are missing."""

    @abstractmethod
    async def open_count(self, limit: int) -> int:
        """How many deliveries are open (ready, waiting, behind or leased) or to be made, counted up to ``limit``."""

    @abstractmethod
    async def orphans(
        self, queue: str, *, silent: timedelta, limit: int = 100, now: datetime | None = None
    ) -> list[Orphan]:
        """Claims of a queue of which the log is silent for longer than that, the most silent first."""

    @abstractmethod
    async def count_orphans(self, queue: str, *, silent: timedelta, limit: int, now: datetime | None = None) -> int:
        """How many orphans there are, counting no more than ``limit`` of them."""

    @abstractmethod
    async def workers(self, *queues: str, limit: int | None = None, now: datetime | None = None) -> list[WorkerSeen]:
        """Everyone who was seen in these queues or holds claims there: last seen first, those never seen at the end."""

    @abstractmethod
    async def count_workers(self, *queues: str) -> int:
        """How many ``workers`` lists when it has no limit."""

    async def queues_of_workers(self) -> list[str]:
        """Every queue in which a worker was seen; dispatchers and roles of the hub are no workers."""
        return [name for name in await self._queues_of_workers() if name != RESERVED and not name.startswith("#")]

    @abstractmethod
    async def _queues_of_workers(self) -> list[str]: ...

    # ----------------------------------------------------------- the events

    @abstractmethod
    async def event(self, event_id: int) -> QueuedEvent | None:
        """One event with its status and counters; None when there is none with that id."""

    @abstractmethod
    async def event_tags(self, event_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The tags of events, those of them that there are; nothing else of them is read."""

    async def events(self, wanted: EventFilter) -> list[QueuedEvent]:
        """Events that fit the filter, newest first, at most its limit.

        Ids grow with time, so that a time is a place among them, and no other event is looked at. Where transactions
        ran side by side this holds to about a second: an event that was stored by one that had been open for longer
        may be missing at either end.
        """
        if wanted.since is None and wanted.until is None:
            return await self._events(wanted)
        first, end = await self._range(wanted)
        before = end if wanted.before_id is None else min(end, wanted.before_id)
        size = max(wanted.limit + wanted.offset, SMALLEST_PAGE)
        found: list[QueuedEvent] = []
        while len(found) < wanted.limit + wanted.offset:
            page = await self._events(replace(wanted, before_id=before, limit=size, offset=0))
            found += [event for event in page if event.id >= first and wanted.is_at(event.created_at)]
            if len(page) < size or page[-1].id < first:
                break
            before = page[-1].id
        return found[wanted.offset : wanted.offset + wanted.limit]

    async def _range(self, wanted: EventFilter) -> tuple[int, int]:
        """Where the events of the times that are asked for begin and end."""
        first, end = 0, NO_END
        if wanted.since is not None:
            near = await self.first_event_since(_moved(wanted.since, -DISORDER))
            first = await self._first_at(near, wanted.since)
        if wanted.until is not None:
            near = await self.first_event_since(_moved(wanted.until, DISORDER))
            end = await self._last_at(near, wanted.until) + 1
        return first, end

    @abstractmethod
    async def count_events(self, wanted: EventFilter) -> int:
        """How many events fit the filter, on all pages; exact, so it takes time where there are millions.

        Of a range of time there is no count.
        """

    @abstractmethod
    async def first_event_since(self, moment: datetime) -> int:
        """The id of the first event that was stored at or after a time; above all ids when there is none.

        Ids grow with time, so it is found by halves. Events that were stored at about the same time may be in
        another order.
        """

    @abstractmethod
    async def log(self, event_id: int) -> list[LogEntry]:
        """What happened to an event, in order."""

    @abstractmethod
    async def stats(self, queue: str | None = None) -> list[QueueStats]:
        """Every queue in numbers, or one of them: its events and the work on them, not the messages of the hub."""

    @abstractmethod
    async def dead(self, *, queue: str | None = None, offset: int = 0, limit: int = 100) -> DeadPage:
        """A page of the work that was given up, newest event first, and how much there is in all."""

    @abstractmethod
    async def dead_event(self, event_id: int) -> DeadEvent | None:
        """The latest dead letter of the work on an event, also one that was retried since."""

    @abstractmethod
    async def handler_results(self, event_ids: Sequence[int]) -> dict[int, dict[str, tuple[str, str | None]]]:
        """Remembered results by event and handler: (kind, message)."""

    @abstractmethod
    async def is_guarded(self, event_id: int, step: str) -> bool:
        """Whether a step of an event is marked as done."""

    # ------------------------------------------------------------- API keys

    @abstractmethod
    async def keys(self) -> list[ApiKey]:
        """Every key there ever was, newest first."""

    @abstractmethod
    async def key(self, key_id: str) -> ApiKey | None:
        """One key; None when there is none with that id."""

    @abstractmethod
    async def has_keys(self) -> bool:
        """Whether there is any key that was not revoked."""

    @abstractmethod
    async def any_keys(self) -> bool:
        """Whether there ever was a key, revoked ones among them."""

    @abstractmethod
    async def ended_sessions(self) -> set[str]:
        """Sessions of browsers that ended before their time."""

    # --------------------------------------------------------- the database

    @abstractmethod
    async def check(self) -> None:
        """Raise unless the database answers; the cheapest question there is."""

    @abstractmethod
    async def now(self) -> datetime:
        """The time by the database's clock, which every due time and lease is judged by."""

    @abstractmethod
    async def schema_version(self) -> int:
        """The version of the tables in the database."""

    @abstractmethod
    async def describe(self) -> dict[str, Any]:
        """Facts about the database for ``eventhub doctor``: versions, settings, sizes."""

    # ------------------------------------------------------ for the engines

    @abstractmethod
    async def _events(self, wanted: EventFilter) -> list[QueuedEvent]:
        """A page of a list, whatever times it asks for."""

    @abstractmethod
    async def _first_at(self, start: int, moment: datetime) -> int:
        """The first event from an id on that was stored at a time or later; none: an id above all."""

    @abstractmethod
    async def _last_at(self, end: int, moment: datetime) -> int:
        """The last event below an id that was stored at a time or earlier; 0 when there is none."""


def _moved(moment: datetime, by: timedelta) -> datetime:
    """A time and a little; at the ends of all time there is no more."""
    try:
        return moment + by
    except OverflowError:
        return moment
