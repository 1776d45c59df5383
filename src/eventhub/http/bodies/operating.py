"""What operators look at."""

from __future__ import annotations

from eventhub.core.events import Status
from eventhub.http.bodies.basics import Answered, Time

__all__ = [
    "Health",
    "OrphanBody",
    "OrphanList",
    "QueueBody",
    "StatsBody",
    "WorkerBody",
    "WorkerList",
]


class OrphanBody(Answered):
    """An event that is being worked on, but nothing was heard of it for a while."""

    id: int
    title: str | None
    tags: str | None
    status: Status
    worker_id: str | None
    attempt: int
    silent_since: Time
    lease_expires_at: Time


class OrphanList(Answered):
    orphans: list[OrphanBody]
    total: int


class WorkerBody(Answered):
    queue: str
    worker_id: str
    first_seen: Time | None
    last_seen: Time | None
    last_action: str | None
    open_claims: int
    stale: bool


class WorkerList(Answered):
    workers: list[WorkerBody]
    total: int


class QueueBody(Answered):
    """One queue in numbers."""

    queue: str
    depth: dict[str, int]
    waiting_for_retry: int
    oldest_pending_seconds: float | None
    latency_p50_seconds: float | None
    latency_p99_seconds: float | None
    failure_rate: float | None


class StatsBody(Answered):
    queues: list[QueueBody]


class Health(Answered):
    status: str
    version: str
