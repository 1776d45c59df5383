"""One pass over the handlers of an event: run those not settled, store each result, come to a verdict."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from time import perf_counter
from typing import Final

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Release
from eventhub.core.outcomes import HandlerResult, PermanentError, Success, TransientError, verdict
from eventhub.core.retry import RetryPolicy
from eventhub.errors import ClaimLost
from eventhub.handling.logs import get_logger
from eventhub.handling.texts import clean, readable_value
from eventhub.queue.handlers import SUCCESS, Handler, Handlers
from eventhub.queue.jobs import Job
from eventhub.queue.verdicts import after_failure, join_errors

__all__ = ["Passes", "to_record"]

log = get_logger("eventhub.queue")

Record = Callable[[Job, str, HandlerResult], Awaitable[bool]]

_COMPLETE: Final = [Complete(execution_ms) for execution_ms in range(1000)]
"""Ready-made: most events complete, and most of them within a second."""


class Passes:
    """Runs passes for one manager."""

    def __init__(
        self,
        handlers: Handlers,
        record: Record,
        *,
        retry: RetryPolicy,
    ) -> None:
        self._handlers = handlers
        self._record = record
        self._retry = retry

    async def run(self, job: Job) -> Outcome:
        """The outcome of one attempt; raises ClaimLost when somebody else has the event meanwhile."""
        event = job.event
        handlers = self._handlers.matching(event.type)
        if not handlers:  # the last of them was unregistered after the claim
            return Release()
        limit = self._limit(job)
        if limit is not None and event.attempts > limit:  # its workers were lost before they could fail
            return Bury(f"Abandoned: {limit} attempts were not reported on.", Reason.WORKER_LOST)
        started = perf_counter()
        results: Sequence[HandlerResult]
        if len(handlers) == 1 and not job.known:
            result = await handlers[0](event)
            took = int((perf_counter() - started) * 1000)
            if result is SUCCESS and took < len(_COMPLETE):
                return _COMPLETE[took]
            results = (result,)
            if verdict(results).kind == "retry":
                await self._keep(job, handlers[0].id, result)
        else:
            results = await self._several(job, handlers)
            took = int((perf_counter() - started) * 1000)
        return self._judge(job, results, took)

    async def _several(self, job: Job, handlers: Sequence[Handler]) -> list[HandlerResult]:
        """Each result is stored before the next handler runs; the last one only if the event will be tried again.

        Each handler gets an event of its own: what one changes in it, no other sees.
        """
        results: list[HandlerResult] = []
        remaining = []
        for handler in handlers:
            settled = _restored(job.known.get(handler.id))
            if settled is None:
                remaining.append(handler)
            else:
                results.append(settled)
        for place, handler in enumerate(remaining, 1):
            last = place == len(remaining)
            result = await handler(job.event if last else job.event.copy())
            results.append(result)
            if not last or verdict(results).kind == "retry":
                await self._keep(job, handler.id, result)
        return results

    async def _keep(self, job: Job, handler_id: str, result: HandlerResult) -> None:
        """Store a result; it is the next pass that wants to know it, and whoever looks at the queue."""
        if not await self._record(job, handler_id, result):
            raise ClaimLost(f"Delivery {job.held.id}, attempt {job.event.attempts}: the claim is lost.")

    def _judge(self, job: Job, results: Sequence[HandlerResult], took: int) -> Outcome:
        judged = verdict(results)
        if judged.kind == "complete":
            return Complete(took)
        error = join_errors(judged.errors)
        if judged.kind == "errors":
            self._tell(job, error, delay=None)
            return Bury(error, Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS, execution_ms=took)
        wait = self._retry.delay(job.event.retry_count + 2, roll=random.uniform(-1.0, 1.0))  # noqa: S311 - no secret
        delay = timedelta(seconds=wait)
        outcome = after_failure(
            error, attempts=job.event.attempts, max_attempts=self._limit(job), delay=delay, execution_ms=took
        )
        self._tell(job, error, delay=None if isinstance(outcome, Bury) else delay)
        return outcome

    def _limit(self, job: Job) -> int | None:
        return self._retry.max_attempts if job.max_attempts is None else job.max_attempts

    def _tell(self, job: Job, error: str, *, delay: timedelta | None) -> None:
        log.warning(
            "attempt failed",
            event_id=job.event.id,
            event_type=job.event.type,
            queue=job.event.queue,
            attempt=job.event.attempts,
            max_attempts=self._limit(job),
            delay_ms=None if delay is None else int(delay.total_seconds() * 1000),
            error=error,
        )


def to_record(handler_id: str, result: HandlerResult) -> tuple[str, str, str | None]:
    """A result as the store keeps it."""
    if not isinstance(result, Success):
        return handler_id, result.kind, clean(str(result))
    return handler_id, result.kind, None if result.value is None else readable_value(result.value)


def _restored(stored: tuple[str, str | None] | None) -> HandlerResult | None:
    """A settled result of an earlier pass; None when the handler has to run (again)."""
    if stored is None or stored[0] == TransientError("", "").kind:
        return None
    if stored[0] == SUCCESS.kind:
        return SUCCESS
    source, _, message = (stored[1] or "").partition(": ")
    return PermanentError(source, message)
