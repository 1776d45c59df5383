"""The running manager: two claimers, runners, a settler and a keeper of leases, each a task of its own.

The claimers fetch the next batch while the runners work on this one and the settler writes down the last
one, so that the database and the handlers are busy at the same time. Only an idle claimer sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import msgspec

from eventhub.core.lifecycle import Bury, Complete, Release
from eventhub.core.outcomes import HandlerResult
from eventhub.errors import ClaimLost, StoreError
from eventhub.handling.limits import HINT, TELL_AFTER
from eventhub.handling.logs import get_logger
from eventhub.queue.claims import claim_lost
from eventhub.queue.event_queue import EventQueue
from eventhub.queue.handlers import Handlers
from eventhub.queue.jobs import Appetite, Job, Jobs
from eventhub.queue.numbers import Numbers
from eventhub.queue.passes import Passes, to_record
from eventhub.queue.patience import LASTING, Patience
from eventhub.queue.presence import Presence
from eventhub.queue.unmatched import Unmatched
from eventhub.store.claims import Claim
from eventhub.store.completions import CompletedTogether
from eventhub.store.values import Report, Settled

__all__ = ["Run", "RunSettings"]

log = get_logger("eventhub.queue")

FAIR_SHARE: Final = 0.005
"""Seconds that a runner may work before the other tasks of the loop get a turn."""
BACKLOG: Final = 4
"""So many full claims may wait to be settled before claiming pauses."""
MOST_TOLD: Final = 10
"""So many running handlers are told of."""
SHORTEST_WATCH: Final = 0.5
LONGEST_WATCH: Final = 60.0
"""Seconds between two looks for types that nobody handles."""
LAST_WORDS: Final = 10.0
"""Seconds that settling may take after the handlers have ended."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a manager runs."""

    concurrency: int
    batch: int
    poll_interval: float
    shutdown_timeout: float
    until_empty: bool = False


class Run:
    """One run of a manager, from start to stop."""

    def __init__(
        self,
        queue: EventQueue,
        handlers: Handlers,
        *,
        unmatched: Unmatched,
        numbers: Numbers,
        settings: RunSettings,
    ) -> None:
        self._queue = queue
        self._store = queue.store
        self._numbers = numbers
        self._settings = settings
        self._jobs = Jobs(Appetite(settings.concurrency, settings.batch))
        self._patience = Patience(queue.name)
        self._handlers = handlers
        self._unmatched = unmatched
        self._passes = Passes(handlers, self._record, retry=queue.handler_retry)
        self._presence = Presence(queue)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    # ------------------------------------------------------------------ life

    async def go(self) -> None:
        """Run until stopped, or until the queue is empty if that was asked; then wind down in good order."""
        claimers = [
            asyncio.create_task(claiming, name="eventhub-claimer") for claiming in (self._claim(), self._claim_along())
        ]
        runners = [asyncio.create_task(self._work(), name="eventhub-runner") for _ in range(self._settings.concurrency)]
        settler = asyncio.create_task(self._settle(), name="eventhub-settler")
        keeper = asyncio.create_task(self._keep(), name="eventhub-keeper")
        presence = asyncio.create_task(self._presence.run(), name="eventhub-presence")
        watcher = asyncio.create_task(self._watch_unmatched(), name="eventhub-unmatched")
        everyone = [*claimers, settler, keeper, watcher, *runners]
        stopped = asyncio.create_task(self._stopping.wait(), name="eventhub-stopped")
        try:
            await asyncio.wait([*everyone, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            presence.cancel()
            watcher.cancel()
            ending = asyncio.create_task(self._wind_down(claimers, runners, settler, keeper))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:  # told a second time: the handlers get no more time
                self._hurry.set()
                await ending
                raise
        for task in everyone:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def stop(self) -> None:
        """Claim no more; ``go`` returns when what runs has ended or its time is up."""
        self._stopping.set()

    async def _wind_down(
        self,
        claimers: Sequence[asyncio.Task[None]],
        runners: Sequence[asyncio.Task[None]],
        settler: asyncio.Task[None],
        keeper: asyncio.Task[None],
    ) -> None:
        self.stop()
        jobs = self._jobs
        deadline = monotonic() + self._settings.shutdown_timeout
        if jobs.claiming:  # a claim on its way must arrive, or it would take again what is given back below
            await asyncio.wait({asyncio.ensure_future(jobs.answered.wait())}, timeout=LAST_WORDS)
        for claimer in claimers:
            claimer.cancel()
        await asyncio.wait(claimers, timeout=1.0)
        jobs.give_back(keep=0)
        jobs.quiet.clear()
        if jobs.open:
            quiet = asyncio.ensure_future(jobs.quiet.wait())
            telling = asyncio.get_running_loop().call_later(TELL_AFTER, self._tell_what_runs, deadline)
            await self._until(quiet, deadline)
            telling.cancel()
        for runner in runners:
            runner.cancel()
        await asyncio.wait(runners, timeout=1.0)
        for job in list(jobs.open.values()):
            jobs.finish(job, Release())
        self._patience.ending = True
        jobs.news.set()
        await asyncio.wait({settler}, timeout=LAST_WORDS)
        for task in (settler, keeper):
            task.cancel()
        await asyncio.wait({settler, keeper}, timeout=1.0)
        await self._presence.leave()

    def _tell_what_runs(self, deadline: float) -> None:
        """Whoever has pressed Ctrl-C sees why nothing happens."""
        runs = [
            f"{handler} with event {job.event.id} ({job.event.type}) for {seconds:.1f} s"
            for job in self._jobs.open.values()
            if job.runner is not None and (found := self._handlers.under_way(job.runner)) is not None
            for handler, seconds in [found]
        ]
        if runs:
            log.warning(
                "waiting for handlers",
                queue=self._queue.name,
                running=runs[:MOST_TOLD],
                count=len(runs),
                seconds_left=round(deadline - monotonic(), 1),
                hint=HINT,
            )

    async def _until(self, awaited: asyncio.Future[Any], deadline: float) -> None:
        """Wait until it is done, the deadline is over, or a hurry; cancel what is not done by then."""
        hurry = asyncio.ensure_future(self._hurry.wait())
        timeout = max(0.0, deadline - monotonic())
        await asyncio.wait({awaited, hurry}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not awaited.done():
            awaited.cancel()
            await asyncio.wait({awaited}, timeout=1.0)

    # --------------------------------------------------------------- claimer

    async def _claim(self) -> None:
        jobs, failures = self._jobs, 0
        await self._patience.insist("recover", lambda: self._store.recover(self._queue.name, now=self._queue.now()))
        while not self._stopping.is_set():
            wanted = await self._room()
            if not wanted:
                continue
            mark = self._store.wakeups.mark(self._queue.name)
            was_drained = jobs.drained  # else a report of ours may have freed something behind the look of this claim
            try:
                if not await self._claim_some(wanted):
                    if not (self._settings.until_empty and jobs.drained):
                        await self._nap(mark)
                    elif was_drained and not await self._see_to_unmatched():
                        return
            except LASTING:
                raise
            except StoreError as error:
                failures += 1
                await self._patience.wait("claim", error, failures)
            else:
                failures = 0

    async def _claim_some(self, wanted: int) -> int:
        claims, new = await self._claimed(wanted)
        try:
            await self._recall(claims, new)
        finally:  # whatever happens, what was claimed is in hand
            self._jobs.add(new)
            if self._stopping.is_set():
                self._jobs.give_back(keep=0)
        return len(new)

    async def _claim_along(self) -> None:
        """While there is plenty: one claim is on its way as the other arrives, so the database never waits for us."""
        jobs = self._jobs
        while not self._stopping.is_set():
            await jobs.plenty.wait()
            wanted = await self._room()
            if not wanted or self._stopping.is_set():
                continue
            try:
                await self._claim_some(wanted)
            except StoreError:  # the other claimer meets the same trouble, and says so
                jobs.plenty.clear()
            if self._settings.until_empty and jobs.drained:
                self._store.wakeups.wake(self._queue.name)

    async def _room(self) -> int:
        """How many to claim; 0 after a wait for room, when it is time to look again."""
        jobs = self._jobs
        wanted = jobs.appetite.wanted(len(jobs.open))
        if not wanted or len(jobs.finished) + jobs.settling > BACKLOG * self._settings.batch:
            jobs.room.clear()
            await jobs.room.wait()
            return 0
        return wanted

    async def _claimed(self, wanted: int) -> tuple[list[Claim], list[Job]]:
        queue, jobs, asked_at = self._queue, self._jobs, monotonic()
        jobs.claiming += 1
        jobs.answered.clear()
        try:
            claims = await self._store.claim(
                queue.name,
                worker=queue.worker,
                lease=queue.abandoned_after,
                limit=wanted,
                types=self._handlers.patterns,
                max_attempts=queue.max_attempts,
                now=queue.now(),
            )
        finally:
            jobs.claiming -= 1
            if not jobs.claiming:
                jobs.answered.set()
        if len(claims) == wanted:
            jobs.appetite.learn(finished=jobs.finished_count, now=asked_at)
            jobs.plenty.set()
        else:
            jobs.appetite.rest()
            jobs.plenty.clear()
        self._numbers.claimed += len(claims)
        return claims, [Job(claim.held, claim, asked_at) for claim in claims]

    async def _recall(self, claims: Sequence[Claim], jobs: Sequence[Job]) -> None:
        """Events that were claimed before may have handlers that are done with them."""
        again = [job for claim, job in zip(claims, jobs, strict=True) if claim.again]
        if again:
            ids = [job.event.id for job in again]
            results = await self._patience.insist("recall results", lambda: self._store.handler_results(ids))
            for job in again:
                job.known = results.get(job.event.id, job.known)

    async def _nap(self, mark: int) -> None:
        """Idle: sleep until there may be work. Due times are only known by the clock they are judged by."""
        name, longest = self._queue.name, self._settings.poll_interval
        if self._queue.clock is None:
            await self._store.wait(name, since=mark, timeout=longest)
        else:
            await self._store.wakeups.wait(name, since=mark, timeout=longest)

    # ------------------------------------------------------------- unmatched

    async def _watch_unmatched(self) -> None:
        """Every now and then; what runs until the queue is empty looks at its end."""
        pause = min(max(self._unmatched.after / 2, SHORTEST_WATCH), LONGEST_WATCH)
        while True:
            await asyncio.sleep(pause)
            try:
                await self._see_to_unmatched()
            except LASTING:
                return
            except StoreError:  # the claimers meet the same trouble, and say so
                continue

    async def _see_to_unmatched(self) -> int:
        """Report what nobody handles, and complete it if that is asked for; returns how many were."""
        queue, patterns = self._queue, self._handlers.patterns
        if patterns is None:
            return 0
        at = queue.now()
        found = await self._store.ready_types(queue.name, unless=patterns)
        idle = self._unmatched.look(queue.name, found, monotonic() if at is None else at.timestamp())
        if not (idle and self._unmatched.completes):
            return 0
        limit = self._settings.batch
        claims = await self._store.claim(
            queue.name, worker=queue.worker, lease=queue.abandoned_after, limit=limit, types=idle, now=queue.now()
        )
        self._numbers.claimed += len(claims)
        await self._write_down([Report(claim.held, Complete(0)) for claim in claims])
        return len(claims)

    # --------------------------------------------------------------- runners

    async def _work(self) -> None:
        task = asyncio.current_task()
        jobs, ready, run_pass = self._jobs, self._jobs.ready, self._passes.run
        began = monotonic()
        while True:
            if not ready:
                await jobs.wait_for_work()
                began = monotonic()
                continue
            job = ready.popleft()
            if job.lost:
                continue
            job.runner = task
            try:
                outcome = await run_pass(job)
            except ClaimLost:
                job.lost = True
            except asyncio.CancelledError:
                if not job.lost:
                    raise  # we are told to stop: the job stays open and is given back
            finally:
                job.runner = None
            now = monotonic()
            if job.lost:
                self._abandon(job, task)
            else:
                jobs.finish(job, outcome)
                jobs.finished_count += 1
                if type(outcome) is not Release:
                    event = job.event
                    waited = (event.updated_at - event.created_at).total_seconds()
                    self._numbers.latency.add(waited + now - job.since)
            if now - began > FAIR_SHARE:
                await asyncio.sleep(0)
                began = monotonic()

    def _abandon(self, job: Job, task: asyncio.Task[Any] | None) -> None:
        """Forget a job whose claim is lost; the runner that was cancelled for it goes on with the next."""
        while task is not None and task.cancelling():
            task.uncancel()
        self._jobs.drop(job)
        self._numbers.lost += 1
        log.warning(
            "claim lost",
            event_id=job.event.id,
            event_type=job.event.type,
            queue=self._queue.name,
            attempt=job.event.attempts,
        )

    async def _record(self, job: Job, handler_id: str, result: HandlerResult) -> bool:
        """Store one handler's result; False when the claim is lost."""
        row = to_record(handler_id, result)
        return await self._patience.insist(
            "record a result", lambda: self._store.record_results(job.held, [row], now=self._queue.now())
        )

    # --------------------------------------------------------------- settler

    async def _settle(self) -> None:
        jobs = self._jobs
        while True:
            await jobs.news.wait()
            jobs.news.clear()
            reports = jobs.take_finished()
            if reports:
                await self._write_down(reports)
                jobs.settling = 0
                jobs.room.set()
            if self._patience.ending and not jobs.finished:
                return
            if self._settings.until_empty and jobs.drained:
                self._store.wakeups.wake(self._queue.name)

    async def _write_down(self, reports: Sequence[Report]) -> None:
        settled = await self._patience.insist("settle", lambda: self._store.settle(reports, now=self._queue.now()))
        self._count(reports, settled)

    def _count(self, reports: Sequence[Report], settled: Sequence[Settled]) -> None:
        numbers = self._numbers
        if type(settled) is CompletedTogether:
            numbers.handled += len(settled)
            numbers.completed += len(settled)
            return
        for report, answer in zip(reports, settled, strict=True):
            kind = type(report.outcome)
            if not answer.accepted:
                # None: it was settled before, by an earlier try of ours whose answer got lost.
                if answer.current is not None:
                    numbers.lost += 1
                    lease = self._queue.abandoned_after
                    log.warning("claim lost", error=str(claim_lost(report.held.id, None, answer.current, lease)))
            elif kind is Complete:
                numbers.handled += 1
                numbers.completed += 1
            elif kind is Release:
                numbers.released += 1
            else:
                numbers.handled += 1
                numbers.failed += 1
                numbers.dead += kind is Bury

    # ---------------------------------------------------------------- keeper

    async def _keep(self) -> None:
        """Extend the leases of everything open, and give back what was claimed when handlers were faster.

        Not of what runs beyond its time limit and does not end: others get the event when the lease has ended.
        """
        lease = self._queue.abandoned_after
        tick = lease.total_seconds() / 3
        pause = tick
        while True:
            await asyncio.sleep(pause)
            pause = tick
            jobs, asked_at = self._jobs, monotonic()
            jobs.give_back(keep=jobs.appetite.limit)
            old = [
                job
                for job in jobs.open.values()
                if asked_at - job.since >= tick
                and not (job.runner is not None and self._handlers.is_overdue(job.runner))
            ]
            if not old:
                continue
            try:
                lost = await self._store.extend([job.held for job in old], lease, now=self._queue.now())
            except StoreError as error:
                log.warning("leases not extended", queue=self._queue.name, error=f"{type(error).__name__}: {error}")
                pause = tick / 4
                continue
            for job in old:
                job.since = asked_at
                if job.held.id in lost and jobs.open.get(job.held.id) is job:
                    self._jobs.drop(job)
                    job.lose()
