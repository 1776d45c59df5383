"""For operators: what hangs, who works, how much waits – and taking an event away from a worker."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from eventhub.errors import EventNotFound
from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked
from eventhub.http.bodies.events import EventBody
from eventhub.http.bodies.operating import OrphanBody, OrphanList, QueueBody, StatsBody, WorkerBody, WorkerList
from eventhub.http.operations import Example, Operation
from eventhub.http.publishing import event_body

__all__ = ["OPERATIONS"]


class ResetQuery(Asked):
    reason: Annotated[str, Meta(max_length=1000, description="Kept in the log.")] = "reset by an operator"


class OrphanQuery(Asked):
    silent_seconds: Annotated[float, Meta(ge=0, le=86_400, description="Nothing heard for longer than this.")] = 30.0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class WorkerQuery(Asked):
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


async def reset(ask: Ask) -> Answer:
    """Takes an event away from its worker: it is ready at once, and the old claim is void."""
    service, number = ask.service, ask.event_id
    await service.work.reset(number, ask.query.reason)
    found = await service.store.event(number)
    if found is None:
        raise EventNotFound(f"Event not found: {number}")
    return document(event_body(found, service.settings.max_retries))


async def orphans(ask: Ask) -> Answer:
    """Events that are being worked on and of which nothing was heard for a while."""
    found = await ask.service.work.orphans(silent=ask.query.silent_seconds, limit=ask.query.limit)
    listed = [
        OrphanBody(
            id=orphan.event.id,
            title=orphan.event.title,
            tags=orphan.event.sent_tags,
            status=orphan.event.status,
            worker_id=orphan.worker,
            attempt=orphan.event.attempts,
            silent_since=orphan.silent_since,
            lease_expires_at=orphan.lease_expires_at,
        )
        for orphan in found
    ]
    total = len(listed)
    if total == ask.query.limit:
        total = max(total, await ask.service.work.count_orphans(silent=ask.query.silent_seconds))
    return document(OrphanList(orphans=listed, total=total))


async def workers(ask: Ask) -> Answer:
    """Every worker that is remembered."""
    found = await ask.service.work.workers(limit=ask.query.limit, everywhere=True)
    listed = [
        WorkerBody(
            queue=worker.queue,
            worker_id=worker.name,
            first_seen=worker.first_seen,
            last_seen=worker.last_seen,
            last_action=worker.last_action,
            open_claims=worker.open_claims,
            stale=worker.stale,
        )
        for worker in found
    ]
    total = len(listed)
    if total == ask.query.limit:
        total = max(total, await ask.service.work.count_workers(everywhere=True))
    return document(WorkerList(workers=listed, total=total))


async def stats(ask: Ask) -> Answer:
    """Every queue in numbers."""
    queues = [
        QueueBody(
            queue=queue.queue,
            depth={status.value: count for status, count in queue.depth.items()},
            waiting_for_retry=queue.waiting_for_retry,
            oldest_pending_seconds=queue.oldest_pending_seconds,
            latency_p50_seconds=queue.latency_p50_seconds,
            latency_p99_seconds=queue.latency_p99_seconds,
            failure_rate=queue.failure_rate,
        )
        for queue in await ask.service.store.stats()
    ]
    return document(StatsBody(queues=queues))


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/events/{id}/reset",
        name="reset",
        summary="Take an event away from its worker; it is ready at once",
        handle=reset,
        scope="admin",
        group="Operating",
        query=ResetQuery,
        answers={200: EventBody},
        problems=(404, 409),
        example=Example(query="reason=worker_timeout"),
    ),
    Operation(
        method="GET",
        path="/orphans",
        name="orphans",
        summary="Events whose worker has gone silent",
        handle=orphans,
        scope="read",
        group="Operating",
        query=OrphanQuery,
        answers={200: OrphanList},
    ),
    Operation(
        method="GET",
        path="/workers",
        name="workers",
        summary="Every worker seen, with its open claims",
        handle=workers,
        scope="read",
        group="Operating",
        query=WorkerQuery,
        answers={200: WorkerList},
    ),
    Operation(
        method="GET",
        path="/stats",
        name="stats",
        summary="Every queue in numbers",
        handle=stats,
        scope="read",
        group="Operating",
        answers={200: StatsBody},
    ),
)
