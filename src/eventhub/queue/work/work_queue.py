"""The work queue of remote workers: the rules of taking and reporting work, whatever carries the words."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self

from eventhub.clock import Clock, check_clock
from eventhub.core.events import Action
from eventhub.core.lifecycle import Release, State
from eventhub.core.matching import MAX_WANTED_TAGS, check_queue, parse_tags
from eventhub.errors import EventHubError, InvalidEventError, NotProcessing, SettingsError
from eventhub.handling.texts import clean
from eventhub.queue.event_queue import as_duration
from eventhub.queue.work.claims import HandedOutClaims
from eventhub.queue.work.reporting import Change, WorkReporter
from eventhub.queue.work.sightings import HEARTBEAT, POLLED, Sightings
from eventhub.queue.work.values import Lease, Recorded, WorkerState, WorkReport
from eventhub.queue.work.waiting_room import Waiter, WaitingRoom
from eventhub.store import Store, open_store
from eventhub.store.claims import Claim, Held
from eventhub.store.composing import Composer
from eventhub.store.values import NewEvent, Orphan, Published, Report, WorkerSeen

__all__ = ["WorkQueue"]

LEASE: Final = timedelta(seconds=300)
RETRY_AFTER: Final = timedelta(seconds=300)
SILENT: Final = timedelta(seconds=30)
UNSEEN: Final = timedelta(minutes=5)
LONGEST_NAME: Final = 200
MANY_ORPHANS: Final = 10_000
MOST_BYTES: Final = 16 * 1_048_576
"""Of payloads in the hands of one who takes many at once; whoever wants more asks again."""


class WorkQueue:
    """A queue for workers that are elsewhere: they know an event's id and their own name, and may lose every answer.

    ``target`` is a path, a store URL or an open store that others use too. Nothing is opened before the first use.

    - ``max_retries``: so many failures, abandoned claims among them, end an event in the dead letter queue.
    - ``retry_after``: the wait before a failed event is offered again.
    - ``lease``: how long a claim lasts unless the worker asks for another time.
    - ``clock``: for tests, any object with ``now()``; None means the database's clock.

    Events of other queues are unknown here: they are never shown and never touched.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        queue: str = "work",
        max_retries: int = 3,
        retry_after: timedelta | float = RETRY_AFTER,
        lease: timedelta | float = LEASE,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(max_retries, int) or max_retries < 1:
            raise SettingsError(f"max_retries is {max_retries!r}; give 1 or more.")
        self.name = check_queue("The queue", queue)
        self.max_retries = max_retries
        self.retry_after = as_duration("retry_after", retry_after, zero=True)
        self.lease = as_duration("lease", lease)
        self.clock = check_clock(clock)
        self.store: Store = target if isinstance(target, Store) else open_store(os.fspath(target))
        self.composer = Composer(self.name, max_attempts=max_retries)
        self._owns_store = not isinstance(target, Store)
        self._claims = HandedOutClaims()
        self._reporter = WorkReporter(self, self._claims)
        self._sightings = Sightings(self.store, self.name, self.now)
        self.room = WaitingRoom(self.store, self.name, claim=self._claim, give_back=self.give_back, now=self.now)

    def now(self) -> datetime | None:
        """The injected clock's time; None means that the database's clock decides."""
        return None if self.clock is None else self.clock.now()

    # ------------------------------------------------------------------ life

    def stop(self) -> None:
        """End every wait at once, with nothing; from here on nothing more is claimed. Reports still go through."""
        self.room.stop()

    async def close(self) -> None:
        """Stop, give back what nobody took, write down who was seen, and close the store if this queue opened it."""
        await self.room.close()
        await self._sightings.close()
        if self._owns_store:
            await self.store.close()

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -------------------------------------------------------- publish, take

    async def publish(self, events: Sequence[NewEvent], *, connection: Any = None) -> Sequence[Published]:
        """Store events that ``composer`` made, all or none; returns after the commit."""
        return await self.store.publish(events, connection=connection, now=self.now())

    async def take(
        self,
        worker: str,
        tags: str | Iterable[str] | None,
        *,
        limit: int = 1,
        lease: timedelta | float | None = None,
        wait: float = 0.0,
        claimed_by: str | None = None,
    ) -> list[Claim]:
        """Lease up to ``limit`` events with any of the tags (None: any event at all) to a worker, oldest first.

        There may be fewer than there are ready: their payloads together are no more than about 16 MiB.
        When there is none, wait up to ``wait`` seconds for one; [] when the time is up or the queue was stopped.
        A caller that is cancelled gives its claims back uncharged.
        """
        asked = _checked_worker(worker), _wanted(tags), _checked_limit(limit), self._duration(lease)
        waiter = Waiter(*asked, claimed_by)
        if not (isinstance(wait, int | float) and math.isfinite(wait)):
            raise SettingsError(f"wait is {wait!r}; give seconds, 0 or more.")
        self._sightings.note(worker, POLLED)
        claims = await self.room.take(waiter, wait)
        for claim in claims:
            self._claims.remember(claim, worker, claimed_by)
        self._sightings.note(worker, Action.PICKED if claims else POLLED)
        return claims

    async def _claim(self, waiter: Waiter) -> list[Claim]:
        return await self.store.claim(
            self.name,
            worker=waiter.worker,
            lease=waiter.lease,
            limit=waiter.limit,
            tags=waiter.tags,
            max_attempts=self.max_retries,
            most_bytes=MOST_BYTES,
            claimed_by=waiter.claimed_by,
            now=self.now(),
        )

    async def give_back(self, claims: Sequence[Claim]) -> None:
        """Claims whose worker never got the answer: ready again at once, no attempt charged."""
        for claim in claims:
            self._claims.forget(claim.held)
        await self.store.settle([Report(claim.held, Release()) for claim in claims], now=self.now())

    # --------------------------------------------------------------- report

    async def complete(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        execution_ms: int | None = None,
        status_code: int | None = None,
        claimed_by: str | None = None,
    ) -> Recorded:
        """The worker did its work. Raises EventNotFound, ClaimLost or AlreadyReported; then nothing has changed."""
        report = WorkReport(
            event_id=event_id,
            worker=worker,
            fence=fence,
            execution_ms=execution_ms,
            status_code=status_code,
            claimed_by=claimed_by,
        )
        return _only(await self.complete_many([report]))

    async def fail(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        error: str | None = None,
        retry: bool = True,
        execution_ms: int | None = None,
        status_code: int | None = None,
        claimed_by: str | None = None,
    ) -> Recorded:
        """The attempt failed: tried again after ``retry_after``, or dead when it was the last one allowed, or when
        ``retry`` is False because no retry can help.

        The last one is ``Recorded.final``. Raises EventNotFound, ClaimLost or AlreadyReported; then nothing has
        changed.
        """
        report = WorkReport(
            event_id=event_id,
            worker=worker,
            fence=fence,
            error=error,
            retry=retry,
            execution_ms=execution_ms,
            status_code=status_code,
            claimed_by=claimed_by,
        )
        return _only(await self.fail_many([report]))

    async def complete_many(self, reports: Sequence[WorkReport]) -> list[Recorded | EventHubError]:
        """Many at once, in one write; each report has its own answer, in order, and errors are not raised."""
        return await self._record(reports, Action.COMPLETED)

    async def fail_many(self, reports: Sequence[WorkReport]) -> list[Recorded | EventHubError]:
        """Many at once, in one write; each report has its own answer, in order, and errors are not raised."""
        return await self._record(reports, Action.FAILED)

    async def _record(self, reports: Sequence[WorkReport], action: Action) -> list[Recorded | EventHubError]:
        answers = await self._reporter.record(reports, action)
        for answer in answers:
            if isinstance(answer, Recorded):
                self._sightings.note(answer.worker, answer.action)
        return answers

    # ------------------------------------------------- start, extend, release

    async def start(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        lease: timedelta | float | None = None,
        claimed_by: str | None = None,
    ) -> Lease:
        """The worker begins: the log says STARTED, and the lease lasts at least ``lease`` from now.

        Raises EventNotFound or ClaimLost.
        """
        longer = self._duration(lease)

        async def begin(held: Held) -> bool:
            return not await self.store.start([held], longer, now=self.now())

        report = WorkReport(event_id=event_id, worker=worker, fence=fence, claimed_by=claimed_by)
        return await self._lengthen(report, begin, Action.STARTED)

    async def heartbeat(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        lease: timedelta | float | None = None,
        claimed_by: str | None = None,
    ) -> Lease:
        """The worker is still at it: the lease lasts at least ``lease`` from now, no log row.

        Raises EventNotFound or ClaimLost.
        """
        longer = self._duration(lease)

        async def extend(held: Held) -> bool:
            return not await self.store.extend([held], longer, now=self.now())

        report = WorkReport(event_id=event_id, worker=worker, fence=fence, claimed_by=claimed_by)
        return await self._lengthen(report, extend, HEARTBEAT)

    async def _lengthen(self, report: WorkReport, change: Change, action: str) -> Lease:
        held = await self._reporter.hold(report, change)
        self._sightings.note(report.worker, action)
        current = (await self.store.current([held.id])).get(held.id)
        if current is None or current.fence != held.fence or current.due is None or current.state is not State.LEASED:
            raise await self._reporter.why_not(report, current)
        return Lease(event_id=report.event_id, worker=report.worker, fence=held.fence, expires_at=current.due)

    async def release(
        self, event_id: int, worker: str, *, fence: int | None = None, claimed_by: str | None = None
    ) -> None:
        """The worker gives the event back: ready at once, no attempt charged. Raises EventNotFound or ClaimLost."""

        async def give_back(held: Held) -> bool:
            (settled,) = await self.store.settle([Report(held, Release())], now=self.now())
            return settled.accepted

        report = WorkReport(event_id=event_id, worker=worker, fence=fence, claimed_by=claimed_by)
        held = await self._reporter.hold(report, give_back)
        self._claims.forget(held)
        self._sightings.note(worker, Action.RELEASED)

    # -------------------------------------------------------------- operate

    async def reset(self, event_id: int, reason: str) -> None:
        """An operator takes an event away from its worker: PENDING at once, and the old claim is void.

        Raises EventNotFound, or NotProcessing when nobody is working on it.
        """
        current = await self._reporter.standing(event_id)
        done = (
            current is not None
            and current.state is State.LEASED
            and await self.store.reset(event_id, reason=clean(reason), now=self.now())
        )
        if not done:
            event = await self.store.event(event_id)
            status = f" ({event.status})" if event is not None else ""
            raise NotProcessing(
                f"Event {event_id}{status}: nobody is working on it, so there is nothing to reset. "
                "Only an event that is PROCESSING can be taken away from its worker."
            )

    async def orphans(self, *, silent: timedelta | float = SILENT, limit: int = 100) -> list[Orphan]:
        """Events being worked on of which the log has said nothing for longer than ``silent``, the most silent first.

        They stay with their workers until their leases end.
        """
        quiet = as_duration("silent", silent, zero=True)
        return await self.store.orphans(self.name, silent=quiet, limit=limit, now=self.now())

    async def count_orphans(self, *, silent: timedelta | float = SILENT) -> int:
        """How many orphans there are; 10,000 stands for more."""
        quiet = as_duration("silent", silent, zero=True)
        return await self.store.count_orphans(self.name, silent=quiet, limit=MANY_ORPHANS, now=self.now())

    async def count_workers(self, *, everywhere: bool = False) -> int:
        """How many ``workers`` lists when it has no limit."""
        return await self.store.count_workers(*await self._queues(everywhere=everywhere))

    async def _queues(self, *, everywhere: bool) -> set[str]:
        await self._sightings.write()
        return {self.name, *(await self.store.queues_of_workers() if everywhere else ())}

    async def workers(self, *, limit: int | None = None, everywhere: bool = False) -> list[WorkerState]:
        """Every worker that is remembered or holds a claim, last seen first, and whether it seems to be gone.

        ``everywhere`` lists those of other queues, too, such as managers.

        A worker is stale when it holds a claim and

        - the lease of one of its claims has ended, or
        - one of its claims is an orphan (30 seconds without a log row), and the worker itself was not seen for as
          long: who sends heartbeats is there, though they leave no log row, or
        - it was not seen for five minutes, or never.
        """
        seen = await self.store.workers(*await self._queues(everywhere=everywhere), limit=limit, now=self.now())
        now = self.now() or await self.store.now()
        left_alone = {orphan.worker for orphan in await self.orphans(limit=MANY_ORPHANS)}
        return [
            WorkerState(
                queue=worker.queue,
                name=worker.name,
                first_seen=worker.first_seen,
                last_seen=worker.last_seen,
                last_action=worker.last_action,
                open_claims=worker.open_claims,
                stale=_is_stale(worker, now, has_orphan=worker.name in left_alone),
            )
            for worker in seen
        ]

    def _duration(self, lease: timedelta | float | None) -> timedelta:
        return self.lease if lease is None else as_duration("lease", lease)


def _is_stale(worker: WorkerSeen, now: datetime, *, has_orphan: bool) -> bool:
    if not worker.open_claims:
        return False
    if worker.last_seen is None or (worker.lease_expires_at is not None and worker.lease_expires_at < now):
        return True
    unseen = now - worker.last_seen
    return unseen > UNSEEN or (has_orphan and unseen > SILENT)


def _only(answers: list[Recorded | EventHubError]) -> Recorded:
    (answer,) = answers
    if isinstance(answer, EventHubError):
        raise answer
    return answer


def _wanted(tags: str | Iterable[str] | None) -> frozenset[str] | None:
    if tags is None:
        return None
    parsed = frozenset(parse_tags(tags, most=MAX_WANTED_TAGS))
    if not parsed:
        raise InvalidEventError("tags is empty; name at least one tag to take work by.")
    return parsed


def _checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or limit < 1:
        raise SettingsError(f"limit is {limit!r}; give 1 or more.")
    return limit


def _checked_worker(worker: str) -> str:
    if not isinstance(worker, str) or not 0 < len(worker) <= LONGEST_NAME or clean(worker) != worker:
        raise InvalidEventError(
            f"The worker id {worker!r:.50} is not usable: give 1 to {LONGEST_NAME} characters of text, "
            "by habit '{hostname}:{process id}'."
        )
    return worker
