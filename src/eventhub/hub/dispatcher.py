"""The dispatcher: claims messages for many subscribers at once, sends them side by side, and reports how each went.

    claim, with room for each ─▶ sign and send ─▶ judge the answer ─▶ settle, many in one commit
        ▲                                                                  │
        └──────────────── a place is free, something is due ◀──────────────┘

Nothing is taken for a subscriber that is paused, disabled or resting; its messages wait in the store, unharmed. Nobody
gets so many places that others would go without, so a consumer that hangs delays its own messages only.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from typing import Final

import msgspec

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.core.verdicts import Verdict, judge
from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger
from eventhub.hub.attempts import compose, story
from eventhub.hub.lines import Line
from eventhub.hub.looping import Loop
from eventhub.hub.notices import Notices
from eventhub.hub.numbers import Numbers
from eventhub.hub.pace import shared_out
from eventhub.hub.roster import Roster
from eventhub.hub.sending import UNSENT, Sender, WebhookAnswer, WebhookRequest
from eventhub.store import Store
from eventhub.store.claims import Held
from eventhub.store.messages import HUB, MessageClaim, WantedMessages, routes_of
from eventhub.store.values import Report

__all__ = ["Dispatcher", "DispatcherTuning"]

log = get_logger("eventhub.hub")

LONGEST_REST: Final = 0.5
SHORTEST_REST: Final = 0.001
TEND_EVERY: Final = 0.1
GATHER: Final = 0.005
"""Seconds in which ended requests come together before the next claim: each costs as much as many."""
LAST_WORDS: Final = 1.0
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of payloads under way, about."""
SMALL: Final = 16 * 1024
"""Payloads of this size are not counted: all that can be under way are little."""
UNCOMPOSED: Final = "uncomposed"


class DispatcherTuning(msgspec.Struct, frozen=True, kw_only=True):
    """How much one dispatcher does at once, and how long it may take to stop."""

    concurrency: int = 500
    shutdown_timeout: float = 15.0


class Tenure(msgspec.Struct, frozen=True):
    """What claims that came together have in common: under which name they were made, and two times.

    ``until`` they may be held and when they ``came``, both by the monotonic clock, which nobody sets.
    """

    worker: str
    until: float
    came: float

    def now(self, claim: MessageClaim) -> float:
        """The database's clock, as the claim told it: that of this machine may be wrong."""
        return claim.claimed_at.timestamp() + time.monotonic() - self.came


class Dispatcher(Loop):
    """Sends the messages of a store until it is stopped."""

    name = "dispatcher"

    def __init__(
        self,
        store: Store,
        roster: Roster,
        sender: Sender,
        notices: Notices,
        numbers: Numbers,
        *,
        tuning: DispatcherTuning = DispatcherTuning(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(store)
        self._roster, self._sender = roster, sender
        self._notices, self._numbers, self._tuning = notices, numbers, tuning
        self._under_way: dict[asyncio.Task[None], tuple[Line, MessageClaim]] = {}
        self._turn = 0
        self._tend_at = 0.0
        self._hub = ""
        self._incarnation = store.incarnation_met
        self._full = False
        self._mark = 0
        self._size = 1

    # ------------------------------------------------------------------ loop

    def start(self) -> None:
        self._roster.join()
        super().start()

    async def work(self) -> float | None:
        self._mark = self._store.wakeups.mark(HUB)  # before the look, so that no wake-up is lost
        if not self._hub:
            self._hub = await self._store.hub_id()
            self._incarnation = self._store.incarnation_met
        if self._incarnation != self._store.incarnation_met:  # what was settled in the one before may be held again
            self._incarnation = self._store.incarnation_met
            self._roster.doubt(self._under_way)
        await self._roster.refresh()
        await self._tend()
        if self._stopping:
            return None
        if await self._claim():
            await asyncio.sleep(GATHER)
            return None
        waits = [line.wait for line in self._roster.lines.values()]
        return max(min([LONGEST_REST, *(wait for wait in waits if wait is not None)]), SHORTEST_REST)

    async def rest(self, seconds: float) -> None:
        if not await self._store.wait(HUB, since=self._mark, timeout=seconds):
            self._tend_at = 0.0

    async def _tend(self) -> None:
        if time.monotonic() >= self._tend_at:
            self._tend_at = time.monotonic() + TEND_EVERY
            await self._store.tend()

    async def _claim(self) -> int:
        lines = self._roster.lines
        await self._roster.probe()
        given, free = shared_out(list(lines.values()), self._tuning.concurrency, self._turn)
        free = min(free, self._tuning.concurrency - len(self._under_way), self._affordable())
        self._full = not given or free <= 0
        if self._full:
            return 0
        wanted = [WantedMessages(line.row.id, count) for line, count in given]
        lease = max(line.lease for line, _ in given)
        roll = random.random()  # noqa: S311 - fairness, not secrecy
        worker, until = self._roster.worker, time.monotonic() + lease.total_seconds()  # from before the claim
        try:
            claims = await self._store.claim_messages(wanted, worker=worker, lease=lease, limit=free, roll=roll)
        except BaseException:
            self._roster.doubt(self._under_way)
            raise
        came = time.monotonic()
        if claims:
            self._size = max(sum(len(claim.payload) for claim in claims) // len(claims), 1)
        self._numbers.claimed += len(claims)
        self._turn += 1 + len(claims)
        self._full = len(claims) >= free  # then some may have been left out
        taken = dict.fromkeys((line.row.id for line, _ in given), 0)
        for claim in claims:
            taken[claim.subscriber] += 1
        for line, count in given:
            line.hungry = taken[line.row.id] >= count
            line.taken(taken[line.row.id])
        for claim in claims:
            self._begin(lines[claim.subscriber], claim, Tenure(worker, until, came))
        return len(claims)

    def _affordable(self) -> int:
        """Messages that there is room for in memory, if they are as large as those of the last claim; at least one."""
        held = sum(len(claim.payload) for _, claim in self._under_way.values()) if self._size > SMALL else 0
        return max((MOST_BYTES - held) // self._size, 0 if self._under_way else 1)

    def _begin(self, line: Line, claim: MessageClaim, tenure: Tenure) -> None:
        task = asyncio.create_task(self._deliver(line, claim, tenure))
        self._under_way[task] = (line, claim)
        self._numbers.in_flight += 1
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        line, claim = self._under_way.pop(task)
        self._numbers.in_flight -= 1
        self._wake(line)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_broke_off", message_id=claim.held.id, error=str(error), exc_info=error)

    def _wake(self, line: Line) -> None:
        if line.hungry or self._full:
            self._store.wakeups.wake(HUB)

    # --------------------------------------------------------------- deliver

    async def _deliver(self, line: Line, claim: MessageClaim, tenure: Tenure) -> None:
        """One attempt. Whatever happens, its place is free afterwards; what was not reported is left to its lease."""
        delivered = tripped = unsent = False
        seconds = math.inf
        try:
            request, answer = await self._send(line, claim, tenure)
            unsent = answer.failure == UNSENT
            seconds = answer.total_ms / 1000
            subscriber = line.ready.subscriber
            verdict = judge(answer, subscriber, attempts=claim.attempts, roll=random.uniform(-1, 1))  # noqa: S311
            delivered = verdict.delivered
        finally:  # the place is free for another request while this one's outcome is written
            tripped = line.given_back() if unsent else line.ended(delivered=delivered, seconds=seconds)
            self._wake(line)
        if unsent:  # a process that was held up does not send what may be another's by now
            log.warning("claim_too_old", message_id=claim.held.id, event_id=claim.event_id)
            await self._settle(Report(claim.held, Release()), tenure.until)
            return
        self._numbers.attempted(answer.status, answer.failure, seconds)
        detail = story(request, answer, attempt=claim.attempts, worker=tenure.worker)
        again = routes_of(claim.subscriber)[1]
        accepted = await self._settle(Report(claim.held, verdict.outcome, detail=detail, again=again), tenure.until)
        self._count(claim, verdict.outcome, tenure, accepted=accepted)
        await self._consequences(line, claim, answer, verdict, tripped=tripped)

    async def _send(self, line: Line, claim: MessageClaim, tenure: Tenure) -> tuple[WebhookRequest, WebhookAnswer]:
        try:
            request = compose(claim, line.ready, hub=self._hub, now=tenure.now(claim), until=tenure.until)
        except Exception as error:  # noqa: BLE001 - one event that somebody damaged must not stop the others
            problem = f"The request could not be composed: {type(error).__name__}: {error}"
            url = line.ready.subscriber.url
            return WebhookRequest(url, {}, b""), WebhookAnswer(failure=UNCOMPOSED, error=problem)
        return request, await self._sender.send(request)

    async def _settle(self, report: Report, until: float) -> bool:
        """Write the outcome; while the database is away it is tried again, and when the lease has ended once more."""
        backoff = Backoff()
        while True:
            try:
                (settled,) = await self._store.settle([report], queue=HUB)
            except StoreClosed:
                return False
            except StoreError as error:
                if time.monotonic() >= until:
                    log.error("outcome_not_stored", message_id=report.held.id, error=str(error))  # noqa: TRY400
                    return False
                pause = backoff.pause()
                log.warning(
                    "settle_failed", message_id=report.held.id, retry_in_ms=round(pause * 1000), error=str(error)
                )
                await asyncio.sleep(pause)
            else:
                return settled.accepted

    def _count(self, claim: MessageClaim, outcome: Outcome, tenure: Tenure, *, accepted: bool) -> None:
        if not accepted:
            self._numbers.lost += 1
            log.warning("claim_lost", message_id=claim.held.id, event_id=claim.event_id)
        elif isinstance(outcome, Complete):
            self._numbers.arrived(max(tenure.now(claim) - claim.created_at.timestamp(), 0.0))
        elif isinstance(outcome, Retry):
            self._numbers.retried += 1
        elif isinstance(outcome, Bury):
            self._numbers.died(str(outcome.reason))
        if accepted and not isinstance(outcome, Complete):
            log.warning(
                "delivery_failed",
                message_id=claim.held.id,
                event_id=claim.event_id,
                subscriber=claim.subscriber,
                attempt=claim.attempts,
                error=getattr(outcome, "error", None),
                delay_ms=round(outcome.delay.total_seconds() * 1000) if isinstance(outcome, Retry) else None,
            )

    async def _consequences(
        self, line: Line, claim: MessageClaim, answer: WebhookAnswer, verdict: Verdict, *, tripped: bool
    ) -> None:
        """What an answer means for the subscriber as a whole; the message itself is settled already."""
        try:
            if verdict.disables:
                await self._notices.disable(line.row, f"It answered {answer.status} to message {claim.held.id}.")
            elif verdict.delivered and line.open:
                await self._notices.recovered(line.row)
            elif tripped and await self._roster.trip(line):
                self._numbers.circuits_opened += 1
                log.warning("circuit_opened", subscriber=line.row.name, error=answer.error or f"HTTP {answer.status}")
        except StoreError as error:  # another answer like it will come
            log.warning("subscriber_not_changed", subscriber=line.row.name, error=str(error))

    # ------------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Take no more, let what is under way end, give back what takes too long; then it is as if never taken."""
        await super().stop()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._tuning.shutdown_timeout)
        left = dict(self._under_way)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=LAST_WORDS)
            await self._give_back([(line, claim) for line, claim in left.values()])
        with suppress(StoreError):
            await self._roster.leave()

    async def _give_back(self, left: list[tuple[Line, MessageClaim]]) -> None:
        """Uncharged; but a message that may be sent once only has been, so it is left to its lease and dies."""
        held: list[Held] = [c.held for line, c in left if line.ready.subscriber.guarantee != "at_most_once"]
        try:
            await self._store.settle([Report(one, Release()) for one in held], queue=HUB)
            self._numbers.released += len(held)
        except StoreError as error:  # then their leases end
            log.warning("messages_not_released", message_ids=[one.id for one in held], error=str(error))
