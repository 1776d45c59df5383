"""The running worker: a taker that asks for as many events as there are free hands, a task for each event at hand,
an outbox for what they end with, and a keeper of leases.

    taker ──▶ open ──▶ handler's task ──▶ outbox ──▶ the hub
              └─ keeper ─┘                          lost claims and shutdown end a task by cancelling it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final

import msgspec

from eventhub.client.answers import ClaimedEvent
from eventhub.client.api import Client, Report
from eventhub.client.keeping import Keeper, Kept
from eventhub.client.outbox import Finished, Outbox
from eventhub.client.performing import Performer
from eventhub.errors import EventHubError, ServerUnavailable
from eventhub.handling.backoff import Backoff
from eventhub.handling.limits import HINT, TELL_AFTER
from eventhub.handling.logs import get_logger

__all__ = ["Run", "WorkerNumbers", "WorkerSettings"]

log = get_logger("eventhub.client")

LAST_WORDS: Final = 10.0
"""Seconds that handlers may take to end when cancelled, and again what is left to say to the hub."""
MOST_TOLD: Final = 10
"""So many running handlers are told of."""
LONGEST_GOODBYE: Final = 3.0
"""Seconds that the hub may take to end a wait that was called off."""
BACKLOG: Final = 10
"""So many times the concurrency may wait to be reported before no more is taken."""
LONGEST_EXECUTION: Final = 2**31 - 1


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works."""

    tags: str
    worker_id: str
    concurrency: int
    lease: float
    batch: int
    wait: float
    shutdown_timeout: float
    handler_timeout: float


class WorkerNumbers(msgspec.Struct, kw_only=True):
    """What a worker has done since it was made."""

    taken: int = 0
    completed: int = 0
    failed: int = 0
    lost: int = 0
    released: int = 0


class Job:
    """A claim on its way through this process."""

    __slots__ = ("finished", "kept", "lost", "task")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.lost = False
        self.finished = False
        self.task: asyncio.Task[None] | None = None

    @property
    def event(self) -> ClaimedEvent:
        return self.kept.event


class Run:
    """One run of a worker, from start to stop."""

    def __init__(
        self,
        make_client: Callable[[float | None], Client],
        perform: Performer,
        settings: WorkerSettings,
        numbers: WorkerNumbers,
    ) -> None:
        self._client = make_client(None)
        self._asking = make_client(None)
        """Connections for taking alone: they can be hung up."""
        self._perform = perform
        self._settings = settings
        self._numbers = numbers
        self._open: dict[int, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._met = False
        self._backoff = Backoff(first=0.1, most=10.0)
        self._outbox = Outbox(self._client, settings.worker_id, settings.lease, self._settled)
        self._keeper = Keeper(make_client, settings.worker_id, settings.lease, self._lose)

    # ------------------------------------------------------------------ life

    async def go(self) -> None:
        """Work until stopped; then let handlers end, give the rest back and report everything."""
        self._keeper.start()
        taker = asyncio.create_task(self._take(), name="eventhub-taker")
        reporter = asyncio.create_task(self._outbox.run(), name="eventhub-reporter")
        stopped = asyncio.create_task(self._stopping.wait(), name="eventhub-stopped")
        self._say("worker started", tags=self._settings.tags, url=self._client.url)
        try:
            await asyncio.wait({taker, reporter, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            ending = asyncio.create_task(self._wind_down(taker, reporter))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:  # told a second time: the handlers get no more time
                self._hurry.set()
                await ending
                raise
        for task in (taker, reporter):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def stop(self) -> None:
        """Take no more; told a second time, the handlers get no more time either."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def _wind_down(self, taker: asyncio.Task[None], reporter: asyncio.Task[None]) -> None:
        self._stopping.set()
        self._room.set()
        await self._end_taking(taker)
        if self._tasks:
            deadline = monotonic() + self._settings.shutdown_timeout
            telling = asyncio.get_running_loop().call_later(TELL_AFTER, self._tell_what_runs, deadline)
            await self._until_done(self._settings.shutdown_timeout)
            telling.cancel()
        for job in self._open.values():
            if job.task is not None and not job.finished:
                job.task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS)
        unfinished = [job for job in self._open.values() if not job.finished]
        await asyncio.gather(*map(self._release, unfinished))
        if not await self._outbox.emptied(LAST_WORDS):
            self._say("reports not delivered; their leases will end", level="error", reports=len(self._outbox))
        reporter.cancel()
        await asyncio.wait({reporter})
        await self._keeper.close()
        await self._client.close()
        await self._asking.close()
        self._say("worker stopped", **msgspec.structs.asdict(self._numbers))

    def _tell_what_runs(self, deadline: float) -> None:
        """Whoever has pressed Ctrl-C sees why nothing happens."""
        runs = [
            f"event {job.event.id} for {seconds:.1f} s"
            for job in self._open.values()
            if job.task is not None and (seconds := self._perform.limit.lasts(job.task)) is not None
        ]
        if runs:
            left = round(deadline - monotonic(), 1)
            self._say(
                "waiting for handlers",
                level="warning",
                running=runs[:10],
                count=len(runs),
                seconds_left=left,
                hint=HINT,
            )

    async def _end_taking(self, taker: asyncio.Task[None]) -> None:
        end = monotonic() + LONGEST_GOODBYE
        while not taker.done() and monotonic() < end:
            self._asking.hang_up()  # again, because a connection may have been on its way just now
            await asyncio.wait({taker}, timeout=0.1)
        taker.cancel()
        await asyncio.wait({taker})

    async def _until_done(self, seconds: float) -> None:
        """Wait until no handler runs, the time is up, or a hurry."""
        hurry = asyncio.create_task(self._hurry.wait())
        done = asyncio.create_task(asyncio.wait(set(self._tasks)))
        await asyncio.wait({hurry, done}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in (hurry, done):
            task.cancel()

    # ----------------------------------------------------------------- taker

    async def _take(self) -> None:
        settings = self._settings
        while not self._stopping.is_set():
            free = min(settings.concurrency - len(self._tasks), settings.batch)
            if free < 1 or len(self._outbox) > BACKLOG * settings.concurrency:
                self._room.clear()
                await self._room.wait()
                continue
            began = monotonic()
            try:
                events = await self._asking.take(
                    settings.tags, settings.worker_id, limit=free, wait=settings.wait, lease=settings.lease
                )
            except EventHubError as error:
                if self._stopping.is_set():
                    return
                if not self._met and not isinstance(error, ServerUnavailable):
                    raise  # a wrong key or tag: no waiting will cure it
                await self._pause(error)
                continue
            self._met = True
            self._outbox.hub_is_back()
            for event in events:
                self._begin(event)
            if self._stopping.is_set():
                return
            if events or monotonic() - began >= settings.wait / 2 > 0:
                self._backoff.reset()
            else:  # it would not wait: it is about to stop, perhaps
                await asyncio.sleep(self._backoff.pause())

    async def _pause(self, error: EventHubError) -> None:
        after = error.retry_after if isinstance(error, ServerUnavailable) else None
        pause = self._backoff.pause(after)
        self._say("no work to be had", level="warning", retry_ms=int(pause * 1000), error=_words(error))
        await asyncio.sleep(pause)

    # -------------------------------------------------------------- handlers

    def _begin(self, event: ClaimedEvent) -> None:
        self._numbers.taken += 1
        older = self._open.get(event.id)
        if older is not None:  # it was claimed again, so the older claim is lost
            self._abandon(older)
        job = self._open[event.id] = Job(Kept(event, self._settings.lease, monotonic(), self._settings.handler_timeout))
        self._keeper.keep(job.kept)
        if self._stopping.is_set():
            return  # it came too late: it is given back
        job.task = asyncio.create_task(self._handle(job), name=f"eventhub-handler-{event.id}")
        self._tasks.add(job.task)
        job.task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()

    async def _handle(self, job: Job) -> None:
        started = perf_counter()
        try:
            ended = await self._perform(job.event)
        except asyncio.CancelledError:
            return  # lost, or given back by who stops us
        if job.lost:
            return
        job.finished = True
        self._keeper.forget(job.kept)
        milliseconds = min(int((perf_counter() - started) * 1000), LONGEST_EXECUTION)
        report = Report(
            event_id=job.event.id,
            worker_id=self._settings.worker_id,
            fence=job.event.fence,
            status_code=ended.status_code,
            execution_time_ms=milliseconds,
            error_message=ended.error,
            retry=ended.retry,
        )
        self._outbox.add(Finished(job.kept, ended, report))

    def _settled(self, finished: Finished, accepted: bool) -> None:  # noqa: FBT001 - a callback
        event, error = finished.kept.event, finished.ended.error
        job = self._open.get(event.id)
        if job is not None and job.kept is finished.kept:
            del self._open[event.id]
        self._room.set()
        if not accepted:
            self._numbers.lost += 1
        elif error is None:
            self._numbers.completed += 1
            self._say("event completed", event, level="debug")
        else:
            self._numbers.failed += 1
            self._say("event failed", event, level="warning", error=error, status_code=finished.ended.status_code)

    # ---------------------------------------------------------- losing claims

    def _lose(self, kept: Kept) -> None:
        """A heartbeat was refused. What has ended meanwhile is judged by the answer to its report."""
        job = self._open.get(kept.event.id)
        if job is not None and job.kept is kept and not job.finished:
            del self._open[kept.event.id]
            self._abandon(job)

    def _abandon(self, job: Job) -> None:
        """Somebody else has the event now: what runs for it here is in vain."""
        job.lost = True
        self._keeper.forget(job.kept)
        if job.task is not None and not job.finished:
            job.task.cancel()
            self._numbers.lost += 1
            self._say("claim lost", job.event, level="warning")

    async def _release(self, job: Job) -> None:
        self._keeper.forget(job.kept)
        del self._open[job.event.id]
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._client.release(job.event, self._settings.worker_id)
        except (EventHubError, TimeoutError) as error:
            self._say("event not given back; its lease will end", job.event, level="warning", error=_words(error))
        else:
            self._numbers.released += 1
            self._say("event given back", job.event)

    def _say(self, what: str, event: ClaimedEvent | None = None, *, level: str = "info", **fields: Any) -> None:
        about = {} if event is None else {"event_id": event.id, "attempt": event.attempt}
        getattr(log, level)(what, worker_id=self._settings.worker_id, **about, **fields)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
