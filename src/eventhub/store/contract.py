"""The store's contract: what every engine can do, and the parts that are the same for all of them.

Publishing and settling go through group commit; every state change is one guarded statement (id, fence and state must
match); due times are judged by the database's clock unless a ``now`` is given. All operations take batches.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from eventhub.core.lifecycle import Release, Retry
from eventhub.core.matching import check_queue
from eventhub.errors import EventHubError, StoreClosed
from eventhub.store.audit import Act, Audit
from eventhub.store.batching import Answer, Batcher
from eventhub.store.buses import Buses
from eventhub.store.claims import Claim, Held, Wanted
from eventhub.store.columns import bare_one, check, is_large, kinds_in, shared_out
from eventhub.store.completions import CompletedTogether
from eventhub.store.delivering import Delivering
from eventhub.store.incarnations import Incarnation
from eventhub.store.ledger import Ledger
from eventhub.store.limits import begin_afresh
from eventhub.store.loop_binding import LoopBinding
from eventhub.store.messages import FANOUT
from eventhub.store.messaging import Messaging
from eventhub.store.operating import Operating
from eventhub.store.portions import Portions
from eventhub.store.pruning import Pruning
from eventhub.store.reading import Reading
from eventhub.store.retirement import ROUTE_IDLE, Retirement
from eventhub.store.snapshots import Snapshots
from eventhub.store.values import NewEvent, Published, Report, Settled, Tended
from eventhub.store.wakeups import Wakeups
from eventhub.store.watching import Watching
from eventhub.store.workers import is_dead

__all__ = ["Store"]

LAST_WORDS = 5.0
"""Seconds that background work may take when the store is closed."""
_AGAIN = (Retry, Release)
SMALL = 10
"""Claims of at most so many deliveries join others that want the same: one write for many workers."""
TEND_EVERY = 0.1
"""Seconds between two looks for due retries and ended leases, while claims keep coming."""
TEND_SHARE = 20
"""A look that took t seconds is not repeated before this many times t, so tending stays a small share of the work."""


class Store(Reading, Watching, Operating, Delivering, Messaging, Ledger, Pruning, Snapshots, Audit, Buses, Retirement):
    """A database of events and deliveries. Opens itself on first use; faces share it.

    ``await store`` opens it at once, ``async with store`` opens it and closes it at the end.
    """

    engine: ClassVar[str]
    _checks_along: ClassVar[bool] = False
    """Whether it can write the rest of a large batch while the payloads are checked."""

    def __init__(self, url: str, *, batch: int = 1000, lanes: int = 1) -> None:
        self.url = url
        self.wakeups = Wakeups()
        self.abandoned = 0
        """Deliveries that this store took back from whoever held them, whichever call it was that noticed."""
        self._opening = asyncio.Lock()
        self._binding = LoopBinding(self.name)
        self._is_open = False
        self._is_closed = False
        self._publishing = Batcher(self._publish_all, limit=batch, lanes=lanes, in_place=True)
        # Keys may have to wait for somebody's transaction: those who use none do not wait along.
        self._publishing_keyed = Batcher(self._publish_all, limit=batch, lanes=lanes)
        self._settling = Batcher(self._settle_calls, limit=batch, lanes=lanes)
        self._claiming = Batcher(self._claim_calls, limit=batch // SMALL, lanes=lanes)
        self._portions = Portions()
        self._tend_at = 0.0
        self._retire_at = time.monotonic() + ROUTE_IDLE.total_seconds()
        self._background: set[asyncio.Task[Any]] = set()

    # ------------------------------------------------------------------ life

    async def open(self) -> Self:
        """Connect and bring the tables up to date; harmless when it is open already.

        From then on it belongs to this event loop and this process: in any other it raises RuntimeError.
        """
        if self._is_open and asyncio.get_running_loop() is self._binding.loop:
            return self
        if not self._is_closed:
            self._binding.bind()
        async with self._opening:
            if self._is_closed:
                raise StoreClosed(f"The store {self.name} was closed; open it again with open_store.")
            if not self._is_open:
                try:
                    await self._open()
                except BaseException:
                    self._binding.release()
                    raise
                self._is_open = True
        return self

    async def close(self) -> None:
        """Finish what is on its way and let go of the database; harmless when it is closed already."""
        if self._is_closed:
            return
        if self.is_stranded:
            await self._abandon()
            return
        if self._binding.loop is not None:
            self._binding.bind()
        self._is_closed = True
        async with self._opening:  # an opening that is under way comes to its end first
            await self._finish_background()
            was_open, self._is_open = self._is_open, False
            for batcher in (self._claiming, self._publishing, self._publishing_keyed, self._settling):
                await batcher.drain()
            if was_open:
                await self._close()
        self.wakeups.wake()

    async def _abandon(self) -> None:
        """Close what belongs to a loop that is closed, as far as that can be done; of the parent process, nothing."""
        self._is_closed = True
        was_open, self._is_open = self._is_open, False
        if was_open and not self._binding.is_forked:
            await self._close_orphaned()

    async def _finish_background(self) -> None:
        """Claims that nobody waits for are given back; what takes long is left to the leases."""
        if self._background:
            await asyncio.wait(self._background, timeout=LAST_WORDS)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    @property
    def name(self) -> str:
        """The URL as it may be shown: without a password."""
        return self.url

    @property
    def incarnation_met(self) -> Incarnation:
        """Which incarnation of the database was met last, without asking it."""
        return Incarnation()

    @property
    def closed(self) -> bool:
        return self._is_closed

    @property
    def is_stranded(self) -> bool:
        """Whether it belongs to an event loop that was closed, or to the process that this one was forked from."""
        return self._binding.is_forked or self._binding.is_orphaned

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -------------------------------------------------------------- publish

    async def publish(
        self,
        events: Sequence[NewEvent],
        *,
        connection: Any = None,
        act: Act | None = None,
        now: datetime | None = None,
    ) -> Sequence[Published]:
        """Store the events, all or none; returns after the commit.

        With ``act`` an administrator publishes them, and the audit log says so in the same commit.

        With ``connection`` they join the caller's own transaction, and nothing is promised before its commit.
        """
        if not self._is_open or asyncio.get_running_loop() is not self._binding.loop:
            await self.open()
        if not events:
            return []
        if connection is None and now is None and act is None and (one := bare_one(events)) is not None:
            published = await self._publishing.put(events)
            self._announce(one.route.queue, told=published[0].told)
            return published
        at_once = connection is None and act is None and (now is not None or self._publishing.is_free)
        if not (self._checks_along and at_once and is_large(events)):
            check(events)  # who has to wait for his turn may as well do it meanwhile
        if connection is not None:
            return await self._publish_within(connection, events, now)
        kinds = kinds_in(events)
        published = await self._store_events(events, kinds, act, now)
        for queue in {
            event.route.queue for event in kinds if event.work and not (event.completed or event.starts_leased)
        }:
            self._announce(queue, told=published[0].told)
        if any(event.broadcast for event in kinds):
            self._announce(FANOUT)
        return published

    async def _store_events(
        self, events: Sequence[NewEvent], kinds: Sequence[NewEvent], act: Act | None, now: datetime | None
    ) -> Sequence[Published]:
        if act is not None:
            return await self._publish_acting(events, act, now)
        if now is not None:
            (answer,) = await self._publish_all([events], now)
            if isinstance(answer, Exception):
                raise answer
            return answer
        keyed = any(event.idempotency_key is not None or event.ordering_key is not None for event in kinds)
        return await (self._publishing_keyed if keyed else self._publishing).put(events)

    # ---------------------------------------------------------------- claim

    async def claim(
        self,
        queue: str,
        *,
        worker: str,
        lease: timedelta,
        limit: int = 1,
        tags: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        max_attempts: int | None = None,
        most_bytes: int | None = None,
        claimed_by: str | None = None,
        now: datetime | None = None,
    ) -> list[Claim]:
        """Lease up to ``limit`` ready deliveries of a queue to a worker, oldest first.

        With ``tags`` only work that has any of them, with ``types`` only events whose type fits any of these patterns.
        With ``most_bytes`` there are fewer when their payloads would be more than about that.

        Abandoned and due ones are made ready first: always when a ``now`` is given, else a few times a second.
        """
        await self.open()
        check_queue("The queue", queue)
        wanted = Wanted(
            queue=queue,
            worker=worker,
            lease=lease,
            limit=limit,
            tags=None if tags is None else frozenset(tags),
            types=None if types is None else frozenset(types),
            max_attempts=max_attempts,
            most_bytes=most_bytes,
            claimed_by=claimed_by,
            now=now,
        )
        return await self._or_given_back(self._tend_and_claim(wanted), now)

    async def _tend_and_claim(self, wanted: Wanted) -> list[Claim]:
        if wanted.now is not None:
            await self.tend(now=wanted.now)
            return await self._portions.claim(wanted, self._claim)
        claims = await self._claim_along(wanted)
        if claims:
            if time.monotonic() >= self._tend_at:
                self._spawn(self.tend)
        elif (await self.tend()).total:
            claims = await self._claim_along(wanted)
        return claims

    async def _claim_along(self, wanted: Wanted) -> list[Claim]:
        """Claim together with others that want the same, if it is little; who comes first gets the oldest."""
        if wanted.limit > SMALL:
            return await self._portions.claim(wanted, self._claim)
        (claims,) = await self._claiming.put([wanted])
        return claims

    async def _claim_calls(self, calls: list[Sequence[Wanted]]) -> list[Answer[list[Claim]]]:
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, (wanted,) in enumerate(calls):
            groups.setdefault(wanted.what, []).append(place)
        if len(groups) == 1:  # as nearly always: no task of its own
            return [[claims] for claims in await self._claim_together([call[0] for call in calls])]
        found = await asyncio.gather(
            *(self._claim_together([calls[place][0] for place in places]) for places in groups.values()),
            return_exceptions=True,
        )
        answers: dict[int, Answer[list[Claim]]] = {}
        for places, claims in zip(groups.values(), found, strict=True):
            if isinstance(claims, Exception):
                answers |= dict.fromkeys(places, claims)
            elif isinstance(claims, BaseException):
                raise claims
            else:
                answers |= {place: [mine] for place, mine in zip(places, claims, strict=True)}
        return [answers[place] for place in range(len(calls))]

    async def _or_given_back(self, claiming: Coroutine[Any, Any, list[Claim]], now: datetime | None) -> list[Claim]:
        """The claims; when the caller is cancelled meanwhile they are given back, uncharged."""
        task = asyncio.create_task(claiming)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:

            async def give_back() -> None:
                reports = [Report(claim.held, Release()) for claim in await task]
                if reports:
                    await self._settle(reports, now)
                    self._announce(None)

            self._spawn(give_back)
            raise

    async def claim_ids(
        self, ids: Sequence[int], *, worker: str, lease: timedelta, now: datetime | None = None
    ) -> list[Claim]:
        """Lease chosen deliveries, those of them that are ready."""
        await self.open()
        return await self._or_given_back(self._claim_ids(ids, worker, lease, now), now) if ids else []

    async def extend(self, held: Sequence[Held], lease: timedelta, *, now: datetime | None = None) -> set[int]:
        """Let leases last at least ``lease`` from now, never less; returns the ids whose claim is lost."""
        await self.open()
        return await self._extend(held, lease, now) if held else set()

    async def start(self, held: Sequence[Held], lease: timedelta, *, now: datetime | None = None) -> set[int]:
        """Log that the work on claims has begun, and lengthen their leases; returns the ids whose claim is lost."""
        await self.open()
        return await self._start(held, lease, now) if held else set()

    # --------------------------------------------------------------- settle

    async def settle(
        self, reports: Sequence[Report], *, queue: str | None = None, now: datetime | None = None
    ) -> Sequence[Settled]:
        """Record how claims ended; a report whose claim is no longer current changes nothing and says so.

        Who knows the ``queue`` of its claims spares the workers of others a look.
        """
        await self.open()
        if not reports:
            return []
        settled = await (self._settling.put(reports) if now is None else self._settle(list(reports), now))
        if type(settled) is not CompletedTogether and any(
            report.held.lane is not None or type(report.outcome) in _AGAIN for report in reports
        ):
            self._announce(queue)  # a successor stepped forward, or something is ready again
        return settled

    async def _settle_calls(self, calls: list[Sequence[Report]]) -> list[Answer[Settled]]:
        return shared_out(await self._settle([report for call in calls for report in call], None), calls)

    # ----------------------------------------------------------------- tend

    async def tend(self, *, now: datetime | None = None, limit: int = 1000) -> Tended:
        """Make due retries ready and take back claims whose lease has ended; safe from any number of processes."""
        await self.open()
        started = time.monotonic()
        tended = await self._tend(now, limit)
        took = time.monotonic() - started
        self._tend_at = started + max(TEND_EVERY, took * TEND_SHARE)
        self.abandoned += tended.taken_back
        if tended.total:
            self._announce(None)
        if now is None and started >= self._retire_at:
            self._retire_at = started + ROUTE_IDLE.total_seconds()
            self._spawn(self.retire_routes)
        return tended

    async def recover(self, queue: str, *, now: datetime | None = None) -> Tended:
        """Take back the claims of workers that are known to be dead, without waiting for their leases."""
        await self.open()
        dead = [worker for worker in await self._holders(queue) if is_dead(worker)]
        return await self.take_back(dead, now=now)

    async def take_back(self, workers: Sequence[str], *, now: datetime | None = None) -> Tended:
        """Abandon every claim of these workers: each counts as an attempt."""
        await self.open()
        tended = await self._take_back(workers, now) if workers else Tended()
        self.abandoned += tended.taken_back
        if tended.total:
            self._announce(None)
        return tended

    # ------------------------------------------------------------- wake-ups

    def _announce(self, queue: str | None, *, told: bool = False) -> None:
        """There may be work: tell this process now and the others soon, unless they know already."""
        self.wakeups.wake(queue)
        if not told:
            self._notify(queue)

    def _notify(self, queue: str | None) -> None:
        """Tell other processes, where the engine can."""

    async def wait(self, queue: str, *, since: int, timeout: float, until_due: bool = True) -> bool:
        """Wait until there may be work, at most ``timeout`` seconds, and no longer than until something is due."""
        due = await self.next_due() if until_due else None
        if due is not None:  # something that is due may be in other hands just now: look soon, but do not spin
            timeout = min(timeout, max(due, 0.01))
        return await self.wakeups.wait(queue, since=since, timeout=timeout)

    def _spawn(self, work: Callable[[], Awaitable[Any]]) -> None:
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ------------------------------------------------------ for the engines

    @abstractmethod
    async def _open(self) -> None: ...
    @abstractmethod
    async def _close(self) -> None: ...
    @abstractmethod
    async def _publish_all(
        self, calls: list[Sequence[NewEvent]], now: datetime | None = None
    ) -> list[Answer[Published]]: ...
    @abstractmethod
    async def _publish_acting(
        self, events: Sequence[NewEvent], act: Act, now: datetime | None
    ) -> Sequence[Published]: ...
    @abstractmethod
    async def _publish_within(
        self, connection: Any, events: Sequence[NewEvent], now: datetime | None
    ) -> Sequence[Published]: ...
    @abstractmethod
    async def _claim(self, wanted: Wanted) -> list[Claim]: ...
    @abstractmethod
    async def _claim_together(self, wanted: Sequence[Wanted]) -> list[list[Claim]]:
        """Claim for several workers that want the same in one write, as if they came one after the other."""

    @abstractmethod
    async def _claim_ids(
        self, ids: Sequence[int], worker: str, lease: timedelta, now: datetime | None
    ) -> list[Claim]: ...
    @abstractmethod
    async def _extend(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]: ...
    @abstractmethod
    async def _start(self, held: Sequence[Held], lease: timedelta, now: datetime | None) -> set[int]: ...
    @abstractmethod
    async def _settle(self, reports: list[Report], now: datetime | None) -> Sequence[Settled]: ...
    @abstractmethod
    async def _tend(self, now: datetime | None, limit: int) -> Tended: ...
    @abstractmethod
    async def _close_orphaned(self) -> None: ...
    @abstractmethod
    async def _holders(self, queue: str) -> list[str]: ...
    @abstractmethod
    async def _take_back(self, workers: Sequence[str], now: datetime | None) -> Tended: ...


async def _quietly(work: Callable[[], Awaitable[Any]]) -> None:
    """Background work whose failure shows up again at the next call that needs its result."""
    begin_afresh()
    with suppress(EventHubError):
        await work()
