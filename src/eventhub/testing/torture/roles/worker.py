"""A process that handles events and may be killed at any moment: an EventManager, bare claims, or a worker over HTTP.

How a handler ends is decided by seed, event and attempt. A slow one outlasts its lease: the manager extends it, the
bare loop does not and comes too late. The bare worker's name says nothing about its process, as on another host, so
only the end of its leases frees what it held.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from eventhub.client import ClaimedEvent
from eventhub.client import Worker as RemoteWorker
from eventhub.core.events import Event, QueuedEvent, Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason
from eventhub.core.outcomes import HandlerResult, PermanentError, Success, TransientError
from eventhub.errors import StoreError, StoreUnavailable
from eventhub.queue import EventManager, EventQueue
from eventhub.queue.verdicts import after_failure
from eventhub.store import Store
from eventhub.store.claims import Claim
from eventhub.store.values import Report
from eventhub.testing.torture.history import Facts, History, hash_of
from eventhub.testing.torture.recording import recorded
from eventhub.testing.torture.roles.patience import deafen, opened
from eventhub.testing.torture.roles.publisher import QUEUE, TAG

Style = Literal["manager", "bare", "http"]
Result = Literal["success", "transient", "permanent", "slow"]
CHANCES: Final[dict[Result, float]] = {"success": 0.8, "transient": 0.13, "permanent": 0.03, "slow": 0.04}
RETRY: Final = timedelta(milliseconds=200)
LONGEST_WAIT: Final = 2.0


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    seed: int
    style: Style
    server: str = ""
    lease: float = 1.0
    concurrency: int = 4
    batch: int = 8
    longest: float = 0.01
    """Seconds that a handler takes, at most, unless it is a slow one."""
    chances: dict[Result, float] = msgspec.field(default_factory=CHANCES.copy)
    shutdown_timeout: float = 30.0
    hold: float | None = None
    """Seconds that every handler takes before it succeeds, instead of what chance decides."""


class Worker:
    def __init__(self, arguments: Arguments, history: History) -> None:
        self.arguments, self.history = arguments, history
        self.lease = timedelta(seconds=arguments.lease)
        self.stopping = asyncio.Event()

    async def handle(self, event: Event | ClaimedEvent, fence: int) -> Result:
        """The handler. A payload may ask for the end of the process."""
        call = self.history.invoke("handle", [_handled(event, fence)])
        if event.payload.get("abort"):
            os.abort()
        choice = random.Random(f"{self.arguments.seed}/{event.payload.get('token')}/{event.attempts}")
        chances = self.arguments.chances
        (result,) = choice.choices(list(chances), list(chances.values()))
        seconds = choice.uniform(0, self.arguments.longest)
        if self.arguments.hold is not None:
            result, seconds = "success", self.arguments.hold
        await asyncio.sleep(self.arguments.lease * 1.3 if result == "slow" else seconds)
        call.ok([{**_handled(event, fence), "outcome": "success" if result == "slow" else result}])
        return result

    # --------------------------------------------------------------- manager

    async def manage(self, store: Store) -> None:
        queue = EventQueue(store, queue=QUEUE, abandoned_after=self.lease, retry_after=RETRY)
        manager = EventManager(
            queue,
            concurrency=self.arguments.concurrency,
            batch=self.arguments.batch,
            poll_interval=0.2,
            shutdown_timeout=self.arguments.shutdown_timeout,
        )
        manager.register("handler", "*", self._for_manager)
        running = asyncio.create_task(manager.run())
        await asyncio.wait(
            {running, stopped := asyncio.create_task(self.stopping.wait())}, return_when="FIRST_COMPLETED"
        )
        stopped.cancel()
        manager.stop()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)  # told a second time: hurry
        try:
            await running
        except asyncio.CancelledError:
            self.history.note("hurried")
        except StoreUnavailable as error:  # its last words found no database; leases take care of the rest
            self.history.note("unheard", error=str(error))

    async def _for_manager(self, event: QueuedEvent | ClaimedEvent) -> HandlerResult:
        result = await self.handle(event, event.fence)
        if result == "transient":
            return TransientError("handler", "not now")
        if result == "permanent":
            return PermanentError("handler", "never")
        return Success()

    # ------------------------------------------------------------------ http

    async def work_remotely(self) -> None:
        """It takes its orders by signals itself."""
        await RemoteWorker(
            self.arguments.server,
            TAG,
            self._for_manager,
            concurrency=self.arguments.concurrency,
            lease=self.lease,
            worker_id=self.arguments.process,
            batch=self.arguments.batch,
            wait=LONGEST_WAIT,
            shutdown_timeout=self.arguments.shutdown_timeout,
            timeout=10.0,
        ).run()

    # ------------------------------------------------------------------ bare

    async def loop(self, store: Store) -> None:
        choice = random.Random(f"{self.arguments.seed}/{self.arguments.process}")
        while not self.stopping.is_set():
            try:
                claims = await store.claim(
                    QUEUE,
                    worker=self.arguments.process,
                    lease=self.lease,
                    limit=choice.randint(1, max(1, self.arguments.batch // 2)),
                )
                await self._work_off(store, claims, together=choice.random() < 0.5)
            except StoreError:
                await asyncio.sleep(0.05)
            else:
                if not claims:
                    await asyncio.sleep(0.02)

    async def _work_off(self, store: Store, claims: list[Claim], *, together: bool) -> None:
        reports: list[Report] = []
        for claim in claims:
            reports.append(Report(claim.held, _outcome(claim, await self.handle(claim.event, claim.held.fence))))
            if not together:
                await store.settle([reports.pop()])
        await store.settle(reports)


def _outcome(claim: Claim, result: Result) -> Outcome:
    if result == "transient":
        return after_failure("not now", attempts=claim.event.attempts, max_attempts=claim.max_attempts, delay=RETRY)
    if result == "permanent":
        return Bury("never", Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS)
    return Complete()


def _handled(event: Event | ClaimedEvent, fence: int) -> Facts:
    return {
        "id": event.id,
        "fence": fence,
        "attempt": event.attempts,
        "key": event.ordering_key,
        "token": event.payload.get("token"),
        "hash": hash_of(event.payload),
    }


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(work(arguments, history))


async def work(arguments: Arguments, history: History) -> None:
    worker = Worker(arguments, history)
    if arguments.style == "http":
        await worker.work_remotely()
    else:
        async with opened(recorded(arguments.url, history)) as store:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
            await (worker.manage(store) if arguments.style == "manager" else worker.loop(store))
    history.note("end")
    deafen()
