"""How a report finds its claim, and what becomes of it.

handed out by this process ─▶ settle ─┬─▶ accepted: recorded
   else the worker's by name ─▶ settle ┤
                                      └─▶ refused ─▶ the log: reported so before ─▶ the same answer again
                                                              the opposite before ─▶ AlreadyReported
                                                              never, or lost      ─▶ ClaimLost

The common case is one settle and nothing else. Everything else asks the database, which all processes share.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.core.events import Action
from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Retry, State
from eventhub.errors import EventHubError, EventNotFound
from eventhub.handling.texts import clean
from eventhub.queue.work.claims import HandedOut, HandedOutClaims
from eventhub.queue.work.history import as_recorded, claim_lost, report_on
from eventhub.queue.work.values import Recorded, WorkReport
from eventhub.store.claims import Held
from eventhub.store.values import Current, Report

if TYPE_CHECKING:
    from eventhub.queue.work.work_queue import WorkQueue

__all__ = ["Change", "WorkReporter"]

TRIES: Final = 3
"""A claim may be lost and made anew between the look and the report, but not for ever."""
LARGEST_ID: Final = 2**63 - 1
NO_REASON: Final = "The worker gave no reason."

Answer = Recorded | EventHubError
Change = Callable[[Held], Awaitable[bool]]
"""Something to be done with a claim; False when the claim turned out to be lost."""


class WorkReporter:
    """Settles the claims of one work queue's workers."""

    def __init__(self, queue: WorkQueue, claims: HandedOutClaims) -> None:
        self._queue = queue
        self._store = queue.store
        self._claims = claims

    # -------------------------------------------------------------- reports

    async def record(self, reports: Sequence[WorkReport], action: Action) -> list[Answer]:
        """Record how attempts ended, all in one write; each report has its own answer."""
        answers: dict[int, Answer] = {}
        for _ in range(TRIES):
            left = [position for position in range(len(reports)) if position not in answers]
            if not left:
                break
            claims, standing = await self._find([reports[position] for position in left])
            for position, claim in zip(left, claims, strict=True):
                if claim is None:
                    current = standing.get(reports[position].event_id)
                    answers[position] = await self._explain(reports[position], action, current)
            answers |= await self._settle(
                [
                    (position, reports[position], claim)
                    for position, claim in zip(left, claims, strict=True)
                    if claim is not None
                ],
                action,
            )
        return [
            answers.get(position) or await self._explain(report, action, None)
            for position, report in enumerate(reports)
        ]

    async def _settle(self, found: list[tuple[int, WorkReport, HandedOut]], action: Action) -> dict[int, Answer]:
        """The answers of those that were accepted, or repeat one that was; the others have to look again."""
        outcomes = [self._outcome(report, claim, action) for _, report, claim in found]
        settled = await self._store.settle(
            [Report(claim.held, outcome) for (_, _, claim), outcome in zip(found, outcomes, strict=True)],
            now=self._queue.now(),
        )
        answers: dict[int, Answer] = {}
        accepted: dict[tuple[int, int], Recorded] = {}
        for (position, report, claim), outcome, answer in zip(found, outcomes, settled, strict=True):
            self._claims.forget(claim.held)
            if answer.accepted and answer.at is not None:
                recorded = self._recorded(report, claim, outcome, answer.at)
                answers[position] = accepted[claim.held.id, claim.held.fence] = recorded
        for position, _, claim in found:  # the same claim twice in one batch
            first = accepted.get((claim.held.id, claim.held.fence))
            if first is not None and position not in answers:
                answers[position] = msgspec.structs.replace(first, repeated=True)
        return answers

    def _outcome(self, report: WorkReport, claim: HandedOut, action: Action) -> Outcome:
        if action is Action.COMPLETED:
            return Complete(report.execution_ms, report.status_code)
        error = NO_REASON if report.error is None else clean(report.error)
        if not report.retry:
            return Bury(error, Reason.REJECTED, execution_ms=report.execution_ms, status_code=report.status_code)
        if claim.failures + 1 < self._queue.max_retries:
            return Retry(error, self._queue.retry_after, report.execution_ms, report.status_code)
        return Bury(error, execution_ms=report.execution_ms, status_code=report.status_code)

    def _recorded(self, report: WorkReport, claim: HandedOut, outcome: Outcome, at: datetime) -> Recorded:
        failed = not isinstance(outcome, Complete)
        again = isinstance(outcome, Retry)
        return Recorded(
            event_id=report.event_id,
            worker=report.worker,
            action=Action.FAILED if failed else Action.COMPLETED,
            fence=claim.held.fence,
            status_code=report.status_code,
            error=getattr(outcome, "error", None),
            execution_ms=report.execution_ms,
            created_at=at,
            retry_count=claim.failures + failed,
            max_retries=self._queue.max_retries,
            retry_scheduled=again,
            next_retry_at=at + self._queue.retry_after if again else None,
            final=isinstance(outcome, Bury),
        )

    # ------------------------------------------------- start, extend, release

    async def hold(self, report: WorkReport, change: Change) -> Held:
        """Do something with the worker's claim; raises when it has none, or lost it."""
        for _ in range(TRIES):
            (claim,), standing = await self._find([report])
            if claim is None:
                raise await self.why_not(report, standing.get(report.event_id))
            if await change(claim.held):
                return claim.held
            self._claims.forget(claim.held)
        raise await self.why_not(report, None)

    async def why_not(self, report: WorkReport, current: Current | None) -> EventHubError:
        """Why a worker has no claim, whatever it wanted with it."""
        if await self._is_unknown(report.event_id, current):
            return _unknown(report.event_id)
        return claim_lost(await self._store.log(report.event_id), report, current)

    # ------------------------------------------------------------- the claim

    async def standing(self, event_id: int) -> Current | None:
        """How an event of this queue stands, None when it is settled; raises when there is no such event here."""
        current = (await self._store.current([event_id])).get(event_id) if _is_id(event_id) else None
        if await self._is_unknown(event_id, current):
            raise _unknown(event_id)
        return current

    async def _find(self, reports: Sequence[WorkReport]) -> tuple[list[HandedOut | None], dict[int, Current]]:
        """The claims that are meant, as far as they seem current, and how the other deliveries stand."""
        claims = [self._claims.find(report) for report in reports]
        missing = {r.event_id for r, claim in zip(reports, claims, strict=True) if claim is None and _is_id(r.event_id)}
        if not missing:
            return list(claims), {}
        standing = await self._store.current(sorted(missing))
        return [
            claim or self._own(report, standing.get(report.event_id))
            for report, claim in zip(reports, claims, strict=True)
        ], standing

    def _own(self, report: WorkReport, current: Current | None) -> HandedOut | None:
        if (
            current is None
            or current.queue != self._queue.name
            or current.state is not State.LEASED
            or current.worker != report.worker
            or report.fence not in (None, current.fence)
            or current.claimed_by not in (None, report.claimed_by)
        ):
            return None
        return HandedOut(
            Held(current.id, current.fence, current.lane), report.worker, current.failures, current.claimed_by
        )

    async def _explain(self, report: WorkReport, action: Action, current: Current | None) -> Answer:
        """The answer to a report whose claim is not current."""
        if await self._is_unknown(report.event_id, current):
            return _unknown(report.event_id)
        log = await self._store.log(report.event_id)
        before = report_on(log, report)
        if before is None:
            return claim_lost(log, report, current)
        return as_recorded(
            log,
            before,
            action,
            current=current,
            max_retries=self._queue.max_retries,
            retry_after=self._queue.retry_after,
        )

    async def _is_unknown(self, event_id: int, current: Current | None) -> bool:
        """Whether there is no such event in this queue: those of other queues are nobody's business here."""
        if not _is_id(event_id):
            return True
        if current is not None:
            return current.queue != self._queue.name
        event = await self._store.event(event_id)
        return event is None or event.queue != self._queue.name


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_ID


def _unknown(event_id: int) -> EventNotFound:
    return EventNotFound(f"Event with id {event_id} not found")
