"""Working: take, start, keep alive, complete, fail, give back – one by one or many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET

from eventhub.core.events import Action
from eventhub.core.matching import MAX_WANTED_TAGS, parse_tags
from eventhub.errors import EventHubError, InvalidEventError
from eventhub.handling.logs import get_logger
from eventhub.http.answers import NO_STORE, Answer, document, empty
from eventhub.http.asking import Ask
from eventhub.http.bodies.working import (
    ClaimedBody,
    ClaimedEvents,
    CompleteBody,
    CompleteManyBody,
    FailBody,
    FailManyBody,
    HeartbeatBody,
    LeaseBody,
    ReleaseBody,
    ReportBody,
    ReportOutcome,
    ReportOutcomes,
    SubscribeBody,
)
from eventhub.http.operations import BATCH, Example, Operation
from eventhub.http.problems import Problem, problem_of
from eventhub.http.publishing import job_type
from eventhub.http.reading import Gone
from eventhub.queue.work import Lease, Recorded, WorkQueue, WorkReport
from eventhub.store.claims import Claim

__all__ = ["OPERATIONS"]

log = get_logger("eventhub.http")

Outcome = Recorded | EventHubError


# -------------------------------------------------------------------- taking


async def subscribe(ask: Ask) -> Answer:
    """One event, or a list of them when ``limit`` is given; 204 when there is none, after the wait that was asked."""
    wanted: SubscribeBody = ask.body if ask.body is not None else ask.query
    claims = await _taken(ask, wanted, _tags(ask, wanted))
    ask.service.metrics.claimed(claims)
    for claim in claims if ask.service.verbose else ():
        log.debug("job taken", event_id=claim.event.id, worker_id=wanted.worker_id, attempt=claim.event.attempts)
    limit = ask.service.settings.max_retries
    if wanted.limit is not None:
        return document(ClaimedEvents(events=[_claimed(claim, limit) for claim in claims]), headers=NO_STORE)
    return document(_claimed(claims[0], limit), headers=NO_STORE) if claims else empty(headers=NO_STORE)


def _tags(ask: Ask, wanted: SubscribeBody) -> tuple[str, ...]:
    """The tags that the worker asks for, if its key lets it have them."""
    status = 422 if ask.body is not None else 400
    try:
        tags = parse_tags(wanted.tags, most=MAX_WANTED_TAGS)
    except InvalidEventError as error:
        raise Problem(status, "invalid-request", str(error), pointer="/tags") from None
    if not tags:
        raise Problem(status, "invalid-request", "tags is empty; name at least one.", pointer="/tags")
    if "\x00" in wanted.worker_id:
        raise Problem(status, "invalid-request", "worker_id contains a NUL character; remove it.", pointer="/worker_id")
    if not ask.principal.scopes.allows_work(tags):
        raise Problem(403, "forbidden", f"This key may not take work with all of the tags {', '.join(tags)}.")
    return tags


async def _taken(ask: Ask, wanted: SubscribeBody, tags: tuple[str, ...]) -> list[Claim]:
    work = ask.service.work
    lease = None if wanted.lease_seconds is None else timedelta(seconds=wanted.lease_seconds)

    if ask.service.stopping:
        return []
    taking = asyncio.ensure_future(
        work.take(
            wanted.worker_id,
            tags,
            limit=wanted.limit or 1,
            lease=lease,
            wait=wanted.wait,
            claimed_by=ask.principal.key_name,
        )
    )
    if not wanted.wait:
        return await taking
    if ask.body is not None:
        ask.let_go_of_body()
    hung_up = asyncio.ensure_future(ask.gone())
    try:
        await asyncio.wait({taking, hung_up}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _give_back(work, taking)
        raise
    finally:
        nobody_there = hung_up.done()
        hung_up.cancel()
    if nobody_there:
        await _give_back(work, taking)
        raise Gone
    return taking.result()


async def _give_back(work: WorkQueue, taking: asyncio.Future[list[Claim]]) -> None:
    """Claims that have come are ready again, uncharged; those still on their way the queue gives back itself."""
    taking.cancel()
    with suppress(asyncio.CancelledError, EventHubError):
        await work.give_back(await taking)


def _claimed(claim: Claim, max_retries: int) -> ClaimedBody:
    event = claim.event
    return ClaimedBody(
        id=event.id,
        title=event.title,
        tags=event.sent_tags,
        status=event.status,
        payload=event.payload,
        retry_count=event.retry_count,
        max_retries=claim.max_attempts or max_retries,
        created_at=event.created_at,
        attempt=event.attempts,
        fence=claim.held.fence,
        lease_expires_at=claim.lease_expires_at,
        description=event.description or UNSET,
        event_type=job_type(event.type),
        metadata=event.metadata or UNSET,
        ordering_key=event.ordering_key or UNSET,
    )


# ----------------------------------------------------------------- reporting


async def complete(ask: Ask) -> Answer:
    """The work is done."""
    body: CompleteBody = ask.body
    await _check_jobs(ask, [ask.event_id])
    recorded = await ask.service.work.complete(
        ask.event_id,
        body.worker_id,
        fence=body.fence,
        execution_ms=body.execution_time_ms,
        status_code=body.status_code,
        claimed_by=ask.principal.key_name,
    )
    _note(ask, recorded)
    return document(_report(recorded))


async def fail(ask: Ask) -> Answer:
    """The attempt failed; the last one that is allowed answers 400, and its effects hold all the same."""
    body: FailBody = ask.body
    await _check_jobs(ask, [ask.event_id])
    recorded = await ask.service.work.fail(
        ask.event_id,
        body.worker_id,
        fence=body.fence,
        error=body.error_message,
        retry=body.retry,
        execution_ms=body.execution_time_ms,
        status_code=body.status_code,
        claimed_by=ask.principal.key_name,
    )
    _note(ask, recorded)
    if recorded.final and not recorded.repeated and body.retry:
        raise _exhausted(recorded)
    return document(_report(recorded))


async def complete_many(ask: Ask) -> Answer:
    """Many reports in one write; each has an answer of its own."""
    body: CompleteManyBody = ask.body
    await _check_jobs(ask, {report.event_id for report in body.reports})
    reports = [_work_report(ask, report) for report in body.reports]
    return _outcomes(ask, reports, await ask.service.work.complete_many(reports))


async def fail_many(ask: Ask) -> Answer:
    """Many reports in one write; each has an answer of its own."""
    body: FailManyBody = ask.body
    await _check_jobs(ask, {report.event_id for report in body.reports})
    reports = [_work_report(ask, report, report.error_message, retry=report.retry) for report in body.reports]
    return _outcomes(ask, reports, await ask.service.work.fail_many(reports))


async def _check_jobs(ask: Ask, ids: Collection[int]) -> None:
    """A key that is narrowed to some tags reports on no other work, whatever name its worker gives itself."""
    scopes = ask.principal.scopes
    if scopes.allows_job(()):
        return
    for number, tags in (await ask.service.store.event_tags([*ids])).items():
        if not scopes.allows_job(tags):
            raise Problem(403, "forbidden", f"This key has nothing to do with work like event {number}.")


def _note(ask: Ask, recorded: Recorded) -> None:
    """Count a report and log it: what failed for everybody to see, the rest for those who look closely."""
    ask.service.metrics.reported(recorded)
    if recorded.repeated:
        return
    fields = {"event_id": recorded.event_id, "worker_id": recorded.worker}
    if recorded.action == Action.COMPLETED:
        if ask.service.verbose:
            log.debug("job completed", **fields)
    else:
        log.warning(
            "job dead" if recorded.final else "job failed",
            **fields,
            retry_count=recorded.retry_count,
            max_retries=recorded.max_retries,
            error=recorded.error,
        )


def _work_report(ask: Ask, report: Any, error: str | None = None, *, retry: bool = True) -> WorkReport:
    return WorkReport(
        event_id=report.event_id,
        worker=report.worker_id,
        fence=report.fence,
        error=error,
        retry=retry,
        execution_ms=report.execution_time_ms,
        status_code=report.status_code,
        claimed_by=ask.principal.key_name,
    )


def _outcomes(ask: Ask, reports: list[WorkReport], outcomes: list[Outcome]) -> Answer:
    results = []
    for report, outcome in zip(reports, outcomes, strict=True):
        if isinstance(outcome, Recorded):
            _note(ask, outcome)
            final = outcome.final and not outcome.repeated and report.retry
            problem = _exhausted(outcome) if final else None
        else:
            problem = problem_of(outcome)
        results.append(
            ReportOutcome(
                event_id=report.event_id,
                status=200 if problem is None else problem.status,
                report=_report(outcome) if isinstance(outcome, Recorded) else UNSET,
                problem=UNSET if problem is None else problem.body(),  # type: ignore[arg-type]
            )
        )
    return document(ReportOutcomes(results=results))


def _exhausted(recorded: Recorded) -> Problem:
    return Problem(
        400,
        "max-retries-exceeded",
        f"Event {recorded.event_id} has failed {recorded.retry_count} times and is in the dead letter queue now.",
        error="Max retries exceeded",
        retry_count=recorded.retry_count,
        max_retries=recorded.max_retries,
    )


def _report(recorded: Recorded) -> ReportBody:
    body = ReportBody(
        event_id=recorded.event_id,
        worker_id=recorded.worker,
        action=recorded.action,
        status_code=recorded.status_code,
        execution_time_ms=recorded.execution_ms,
        created_at=recorded.created_at,
    )
    if recorded.action == Action.FAILED:
        body.error_message = recorded.error
        body.retry_scheduled = recorded.retry_scheduled
        body.next_retry_at = recorded.next_retry_at
    return body


# ------------------------------------------------------------------- keeping


async def start(ask: Ask) -> Answer:
    """The worker begins; also extends the lease."""
    body: HeartbeatBody = ask.body
    await _check_jobs(ask, [ask.event_id])
    return document(_lease(await ask.service.work.start(ask.event_id, body.worker_id, **_longer(ask))))


async def heartbeat(ask: Ask) -> Answer:
    """The worker is still at it: the lease lasts at least so long from now."""
    body: HeartbeatBody = ask.body
    await _check_jobs(ask, [ask.event_id])
    return document(_lease(await ask.service.work.heartbeat(ask.event_id, body.worker_id, **_longer(ask))))


async def release(ask: Ask) -> Answer:
    """Gives the event back; no attempt is charged."""
    body: ReleaseBody = ask.body
    await _check_jobs(ask, [ask.event_id])
    await ask.service.work.release(ask.event_id, body.worker_id, fence=body.fence, claimed_by=ask.principal.key_name)
    return empty()


def _longer(ask: Ask) -> dict[str, Any]:
    body: HeartbeatBody = ask.body
    return {"fence": body.fence, "lease": body.lease_seconds, "claimed_by": ask.principal.key_name}


def _lease(lease: Lease) -> LeaseBody:
    return LeaseBody(
        event_id=lease.event_id, worker_id=lease.worker, fence=lease.fence, lease_expires_at=lease.expires_at
    )


_WORKER: Final = "worker-02:8742"
_WORKING: Final = {"worker_id": _WORKER}
_DONE: Final = {"worker_id": _WORKER, "execution_time_ms": 1250, "status_code": 200}
_FAILED: Final = {
    "worker_id": _WORKER,
    "execution_time_ms": 5000,
    "status_code": 500,
    "error_message": "Connection timeout: mail server unreachable. Will retry.",
}
_LOST: Final = (404, 409)


def _operation(verb: str, summary: str, handle: Any, *, body: Any, answer: Any, example: Any) -> Operation:
    return Operation(
        method="POST",
        path=f"/events/{{id}}/{verb}",
        name=verb,
        summary=summary,
        handle=handle,
        scope="work",
        group="Work",
        body=body,
        answers={204: None} if answer is None else {200: answer},
        problems=_LOST,
        example=Example(body=example),
    )


def _subscribe(method: str) -> Operation:
    by_query = method == "GET"
    return Operation(
        method=method,
        path="/events/subscribe",
        name="subscribe" if by_query else "subscribe_by_body",
        summary="Take work: events with any of the tags, oldest first",
        description="Long-polls with `wait`; with `limit` the answer is a list. The claim lasts until "
        "`lease_expires_at`; extend it with heartbeats.",
        handle=subscribe,
        scope="work",
        group="Work",
        safe=False,
        query=SubscribeBody if by_query else None,
        body=None if by_query else SubscribeBody,
        answers={200: (ClaimedBody, ClaimedEvents), 204: None},
        example=Example(query=f"tags=email,notification&worker_id={_WORKER}")
        if by_query
        else Example(body={"tags": ["email", "notification"], "worker_id": _WORKER, "wait": 0, "limit": 10}),
    )


def _many(verb: str, summary: str, handle: Any, body: Any, example: dict[str, Any]) -> Operation:
    return Operation(
        method="POST",
        path=f"/events/{verb}",
        name=f"{verb}_many",
        summary=summary,
        handle=handle,
        scope="work",
        group="Work",
        body=body,
        answers={200: ReportOutcomes},
        limit=BATCH,
        example=Example(body={"reports": [{"event_id": 1001, **example}]}),
    )


OPERATIONS: Final = (
    _subscribe("GET"),
    _subscribe("POST"),
    _operation("complete", "Report success", complete, body=CompleteBody, answer=ReportBody, example=_DONE),
    _operation(
        "fail",
        "Report a failure; it is retried until max_retries",
        fail,
        body=FailBody,
        answer=ReportBody,
        example=_FAILED,
    ),
    _operation("start", "Say that work begins", start, body=HeartbeatBody, answer=LeaseBody, example=_WORKING),
    _operation("heartbeat", "Extend the lease", heartbeat, body=HeartbeatBody, answer=LeaseBody, example=_WORKING),
    _operation("release", "Give the event back, uncharged", release, body=ReleaseBody, answer=None, example=_WORKING),
    _many("complete", "Report many successes", complete_many, CompleteManyBody, _DONE),
    _many("fail", "Report many failures", fail_many, FailManyBody, _FAILED),
)
