"""What a running manager holds: events ready to be handled, events being handled, and outcomes to be settled.

claimer ──▶ ready ──▶ a runner ──▶ finished ──▶ settler
            └──────── open ───────┘
            leases are kept for these
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from eventhub.core.events import QueuedEvent
from eventhub.core.lifecycle import Outcome, Release
from eventhub.store.claims import Claim, Held
from eventhub.store.values import Report

__all__ = ["Appetite", "Job", "Jobs"]

HORIZON: Final = 0.25
"""Seconds of work that a process may hold in advance: enough to hide a round trip, too little to hoard."""


class Job(msgspec.Struct, gc=False):
    """A claim on its way through this process. A runner takes itself out again, so that nothing goes in a circle."""

    held: Held
    claim: Claim
    since: float
    known: dict[str, tuple[str, str | None]] = {}
    runner: asyncio.Task[Any] | None = None
    lost: bool = False

    @property
    def event(self) -> QueuedEvent:
        return self.claim.event

    @property
    def max_attempts(self) -> int | None:
        return self.claim.max_attempts

    def lose(self) -> None:
        """Somebody else has the event now: what runs for it here is in vain."""
        self.lost = True
        if self.runner is not None:
            self.runner.cancel()


class Appetite:
    """How many events to claim at once: what is handled in the horizon. It grows fourfold at most, and halves."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = max(least, most)
        self.limit = least
        self.threshold = least - 1
        """Claim when no more than this many are open; kept ready, because every finished job compares with it."""
        self._finished = 0
        self._at: float | None = None

    def wanted(self, open_jobs: int) -> int:
        if open_jobs > self.threshold:
            return 0
        return self.limit if self.limit > self._least else self._least - open_jobs

    def learn(self, *, finished: int, now: float) -> None:
        """Judge the pace since the last full claim; after an idle time there is nothing to judge."""
        if self._at is not None and now > self._at:
            ideal = int((finished - self._finished) / (now - self._at) * HORIZON)
            ideal = min(max(ideal, self.limit // 2), self.limit * 4)
            self.limit = min(max(ideal, self._least), self._most)
            self.threshold = self.limit if self.limit > self._least else self._least - 1
        self._at, self._finished = now, finished

    def rest(self) -> None:
        """The queue had less than was asked for: the pace until the next claim will say nothing."""
        self._at = None


class Jobs:
    """The claims of one run, between its claimer, runners and settler, all on one event loop."""

    def __init__(self, appetite: Appetite) -> None:
        self.appetite = appetite
        self.ready: deque[Job] = deque()
        self.open: dict[int, Job] = {}
        self.finished: list[Report] = []
        self.finished_count = 0
        self.settling = 0
        self.claiming = 0
        self.answered = asyncio.Event()
        """No claim is on its way."""
        self.room = asyncio.Event()
        self.plenty = asyncio.Event()
        """The last claim got all it asked for: there is more where it came from."""
        self.news = asyncio.Event()
        self.quiet = asyncio.Event()
        self._idle: deque[asyncio.Future[None]] = deque()

    @property
    def drained(self) -> bool:
        return not (self.open or self.finished or self.settling or self.claiming)

    def add(self, jobs: Iterable[Job]) -> None:
        """Take claimed jobs in; an older claim of the same event must be lost, for it was claimed again."""
        for job in jobs:
            older = self.open.get(job.held.id)
            if older is not None:
                older.lose()
            self.open[job.held.id] = job
            self.ready.append(job)
        for _ in range(min(len(self.ready), len(self._idle))):
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_work(self) -> None:
        """Sleep until there may be a job for one more runner."""
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        finally:
            if not waiter.done() or waiter.cancelled():
                self._idle = deque(other for other in self._idle if other is not waiter)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """The job ended in this way; the settler will write it down."""
        self.drop(job)
        self.finished.append(Report(job.held, outcome))
        if not self.news.is_set():
            self.news.set()

    def drop(self, job: Job) -> None:
        """The job is no longer ours to work on."""
        still_open, event_id = self.open, job.held.id
        if still_open.get(event_id) is job:
            del still_open[event_id]
        if len(still_open) <= self.appetite.threshold and not self.room.is_set():
            self.room.set()
        if not still_open:
            self.quiet.set()

    def give_back(self, keep: int) -> None:
        """Release, uncharged, the youngest jobs beyond ``keep`` that nobody has begun."""
        while len(self.ready) > keep:
            job = self.ready.pop()
            if not job.lost:
                self.finish(job, Release())

    def take_finished(self) -> list[Report]:
        """Everything there is to settle now."""
        reports, self.finished = self.finished, []
        self.settling = len(reports)
        return reports
