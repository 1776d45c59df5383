"""What those ask who watch a hub, again and again: every question is bounded, however large the tables are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from eventhub.core.events import LogEntry
from eventhub.core.lifecycle import State
from eventhub.store.messages import HUB

__all__ = ["MOST_COUNTED", "LogNews", "OpenCounts", "Troubles", "Watching", "to_open_counts", "to_troubles"]

MOST_COUNTED: Final = 100_000
"""So many of a kind are counted; beyond, there are more."""
MOST_DEATHS: Final = 1_000
MOST_TROUBLED: Final = 100
MOST_CLAIMS: Final = 1_000
"""Claims that are looked at for silent workers: those that end first."""
NEWS_REACH: Final = timedelta(minutes=1)
"""How far back news are looked for: what was written longer ago than this is none."""
_NAMES: Final = {State.READY: "ready", State.WAITING: "waiting", State.BEHIND: "behind"}


class OpenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is open now. Each kind (ready work, work held back, messages, claims) is counted up to a limit."""

    ready: dict[str, int]
    """Work that could be taken, by queue; and so on."""
    waiting: dict[str, int]
    behind: dict[str, int]
    leased: dict[str, int]
    messages: dict[str, int]
    """``ready``, ``waiting``, ``behind`` and ``leased``."""
    more: bool
    oldest_work_seconds: dict[str, float]
    """Since when the oldest work that could be taken waits, by queue."""
    oldest_message_seconds: float | None


class LogNews(msgspec.Struct, frozen=True):
    """Rows of the log that were not there before: the newest of them, oldest first, each with its event's type.

    ``position`` is where the next look goes on; ``missed`` were news, too, but are not among them.
    """

    entries: list[tuple[LogEntry, str | None]]
    missed: int
    position: str


class Troubles(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may have to look after, counted no further than it matters."""

    deaths: int
    """Dead letters of the last hour that were not retried."""
    last_death: int | None
    """The number of the latest one's message."""
    blocked_keys: int
    parked_keys: int
    parked_work: int
    """Keys of queues that are parked; the other two are those of subscribers."""
    dead_letters: int
    open_circuits: list[tuple[int, str]]
    """Subscribers by id and name."""
    disabled: list[tuple[int, str, str]]
    """The same with the reason; none of those that an operator has disabled without one."""
    subscribers: int
    silent_claims: list[tuple[str, int]]
    """Workers of a queue that hold claims and were not seen for long, and how many."""


class Watching(ABC):
    """Each opens the store when it is not open yet. Times are those of the database's clock."""

    late: timedelta
    """How long after its time a row may still appear: what is older than that can be counted once and for all."""

    @abstractmethod
    async def open_counts(self, *, limit: int = MOST_COUNTED, now: datetime | None = None) -> OpenCounts:
        """How much is open, by queue and state."""

    @abstractmethod
    async def activity(self, since: datetime, until: datetime, step: timedelta) -> list[tuple[datetime, str, int]]:
        """How often each action was logged from one time to below another: (start of the step, action, count).

        Steps begin at ``since``; those in which nothing happened are missing.
        """

    @abstractmethod
    async def newest_log(self, limit: int, *, since: str | None = None) -> LogNews:
        """The newest rows of the log, at most ``limit``; with ``since``, only what was not there at that position."""

    @abstractmethod
    async def troubles(self, queue: str, *, silent: timedelta, now: datetime | None = None) -> Troubles:
        """What may need an operator; claims of ``queue`` whose workers were not seen for ``silent`` among it."""

    @abstractmethod
    async def was_seen(self, queue: str, *, within: timedelta, now: datetime | None = None) -> bool:
        """Whether any worker of the queue was seen lately."""


def to_open_counts(
    *,
    ready: Sequence[Sequence[Any]],
    held: Sequence[Sequence[Any]],
    messages: Sequence[Sequence[Any]],
    claims: Sequence[Sequence[Any]],
    oldest: Sequence[Sequence[Any]],
    limit: int,
) -> OpenCounts:
    """From the rows of the five questions, as either engine answers them."""
    leased = {row[0]: row[1] for row in claims}
    ages = {row[0]: max(float(row[1]), 0.0) for row in oldest}
    by_state = {_NAMES[State(row[0])]: row[1] for row in messages}
    kinds = [sum(row[-1] for row in rows) for rows in (ready, held, messages, claims)]
    return OpenCounts(
        ready={row[0]: row[1] for row in ready},
        waiting={row[0]: row[2] for row in held if row[1] == State.WAITING},
        behind={row[0]: row[2] for row in held if row[1] == State.BEHIND},
        leased={queue: count for queue, count in leased.items() if queue != HUB},
        messages={**dict.fromkeys(_NAMES.values(), 0), **by_state, "leased": leased.get(HUB, 0)},
        more=max(kinds) >= limit,
        oldest_work_seconds={queue: age for queue, age in ages.items() if queue != HUB},
        oldest_message_seconds=ages.get(HUB),
    )


def to_troubles(
    deaths: Sequence[Any],
    standstill: Sequence[Any],
    subscribers: Sequence[Sequence[Any]],
    number: int,
    claims: Sequence[Sequence[Any]],
) -> Troubles:
    return Troubles(
        deaths=deaths[0],
        last_death=deaths[1],
        blocked_keys=standstill[0],
        parked_keys=standstill[1],
        parked_work=standstill[3],
        dead_letters=standstill[4],
        open_circuits=[(row[0], row[1]) for row in subscribers if row[4] == "open" and row[2] == "active"],
        disabled=[(row[0], row[1], row[3]) for row in subscribers if row[2] == "disabled"],
        subscribers=number,
        silent_claims=[(row[0], row[1]) for row in claims],
    )
