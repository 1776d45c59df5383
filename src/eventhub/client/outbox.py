"""Reports on their way to the hub: in batches, again and again until they are delivered or their lease has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Final

import msgspec

from eventhub.client.answers import ReportOutcome
from eventhub.client.api import Client, Report
from eventhub.client.keeping import Kept
from eventhub.client.performing import Ended
from eventhub.client.problems import AWAY
from eventhub.errors import EventHubError, RemoteError, ServerUnavailable
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger

__all__ = ["Finished", "Outbox"]

log = get_logger("eventhub.client")

MOST_COMPLETED: Final = 1000
MOST_FAILED: Final = 100
"""Failures carry texts, and a body has its limit."""
SERVER_ERROR: Final = 500
GONE: Final = frozenset({404, 409})


class Finished(msgspec.Struct, frozen=True, eq=False):
    """A handler's ending, to be reported; each is itself only."""

    kept: Kept
    ended: Ended
    report: Report


class Outbox:
    """What is to be reported. ``on_settled`` hears of each report once: True when the hub has accepted it."""

    def __init__(
        self, client: Client, worker_id: str, lease: float, on_settled: Callable[[Finished, bool], None]
    ) -> None:
        self._client = client
        self._worker_id = worker_id
        self._on_settled = on_settled
        self._waiting: dict[Finished, None] = {}
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._back = asyncio.Event()
        self._backoff = Backoff(first=min(0.1, lease / 30), most=min(5.0, lease / 6))

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, finished: Finished) -> None:
        self._waiting[finished] = None
        self._idle.clear()
        self._news.set()

    def hub_is_back(self) -> None:
        """It has answered somebody: there is no need to wait any longer."""
        self._back.set()

    async def emptied(self, seconds: float) -> bool:
        """Whether everything was delivered, or given up, within the time."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Deliver for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                batch = self._next_batch()
                trouble = await self._deliver(batch)
                if trouble is None:
                    self._backoff.reset()
                elif self._waiting:
                    await self._pause(trouble)
            self._idle.set()

    def _next_batch(self) -> list[Finished]:
        """Reports of one kind, those that wait longest first."""
        failed = next(iter(self._waiting)).ended.error is not None
        most = MOST_FAILED if failed else MOST_COMPLETED
        same = (each for each in self._waiting if (each.ended.error is not None) is failed)
        return list(islice(same, most))

    async def _deliver(self, batch: Sequence[Finished]) -> EventHubError | None:
        """Send the reports; what stays to be sent again is told by the trouble that there was."""
        send = self._client.complete_many if batch[0].ended.error is None else self._client.fail_many
        try:
            outcomes = await send([finished.report for finished in batch])
            if len(outcomes) != len(batch):
                raise RemoteError(f"{len(batch)} reports got {len(outcomes)} outcomes", status=200)
        except EventHubError as error:
            self._give_up(batch)
            return error
        trouble: EventHubError | None = None
        for finished, outcome in zip(batch, outcomes, strict=True):
            if outcome.accepted:
                self._settle(finished, accepted=True)
            elif outcome.status in AWAY or outcome.status >= SERVER_ERROR:
                trouble = ServerUnavailable(_words(outcome))
            else:
                self._refused(finished, outcome)
        if trouble is not None:
            self._give_up(batch)
        return trouble

    def _settle(self, finished: Finished, *, accepted: bool) -> None:
        del self._waiting[finished]
        self._on_settled(finished, accepted)

    def _refused(self, finished: Finished, outcome: ReportOutcome) -> None:
        lost = outcome.status in GONE
        log.warning("claim lost" if lost else "report refused", **self._about(finished), error=_words(outcome))
        self._settle(finished, accepted=False)

    def _give_up(self, batch: Sequence[Finished]) -> None:
        """Forget the reports whose lease has ended: whoever has the event now reports for itself."""
        now = monotonic()
        for finished in batch:
            if finished in self._waiting and finished.kept.until < now:
                log.error("report given up: it could not be delivered before the lease ended", **self._about(finished))
                self._settle(finished, accepted=False)

    async def _pause(self, trouble: EventHubError) -> None:
        after = trouble.retry_after if isinstance(trouble, ServerUnavailable) else None
        pause = self._backoff.pause(after)
        log.warning(
            "reports not delivered",
            worker_id=self._worker_id,
            reports=len(self._waiting),
            retry_ms=int(pause * 1000),
            error=f"{type(trouble).__name__}: {trouble}",
        )
        if after is not None:  # the hub itself has said when
            await asyncio.sleep(pause)
            return
        self._back.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._back.wait()

    def _about(self, finished: Finished) -> dict[str, object]:
        event = finished.kept.event
        return {"event_id": event.id, "worker_id": self._worker_id, "attempt": event.attempt}


def _words(outcome: ReportOutcome) -> str:
    return f"{outcome.status}: {outcome.problem.detail if outcome.problem else 'no more is said'}"
