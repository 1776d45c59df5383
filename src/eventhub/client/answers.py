"""What the hub answers, as values. Members that an older or newer hub leaves out or adds do no harm."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from eventhub.core.events import Action, Status

__all__ = [
    "ClaimedEvent",
    "ClaimedEvents",
    "Counted",
    "Created",
    "CreatedSubscriber",
    "DeadLetterPage",
    "DeadLetterSummary",
    "EventDetails",
    "EventPage",
    "EventSummary",
    "Lease",
    "LogRow",
    "NewSecret",
    "Orphan",
    "Orphans",
    "ProblemDetails",
    "PublishedBatch",
    "QueueNumbers",
    "Recorded",
    "ReportOutcome",
    "ReportOutcomes",
    "Statistics",
    "SubscriberDetails",
    "Subscribers",
    "WorkerSeen",
    "Workers",
]


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """Something that the hub said."""


class LogRow(Answer, kw_only=True, frozen=True):
    """One thing that happened to an event."""

    id: int
    event_id: int
    action: Action
    created_at: datetime
    worker_id: str | None = None
    attempt: int | None = None
    status_code: int | None = None
    error_message: str | None = None
    execution_time_ms: int | None = None
    delivery_id: int | None = None
    """Of a message to a subscriber, its id."""
    subscriber_id: int | None = None
    subscriber: str | None = None
    """The name of the subscriber, unless it was removed."""


class EventSummary(Answer, kw_only=True, frozen=True):
    """An event in a list: without its payload."""

    id: int
    title: str | None
    status: Status
    tags: str | None
    retry_count: int
    created_at: datetime
    updated_at: datetime
    next_retry_at: datetime | None = None
    event_type: str | None = None


class EventDetails(EventSummary, kw_only=True, frozen=True):
    """An event, whole; with its log if that was asked for."""

    description: str | None = None
    payload: Any = None
    max_retries: int
    metadata: dict[str, str] = {}
    ordering_key: str | None = None
    idempotency_key: str | None = None
    errors: tuple[str, ...] = ()
    logs: tuple[LogRow, ...] = ()
    archived: bool = False


class EventPage(Answer, kw_only=True, frozen=True):
    """A page of events: its total is counted by offset, and ``next_cursor`` leads on by cursor."""

    events: tuple[EventSummary, ...]
    limit: int
    total: int | None = None
    offset: int | None = None
    next_cursor: str | None = None


class Created(Answer, kw_only=True, frozen=True):
    """One event of a batch: its id, and whether its idempotency key stood for it before."""

    id: int
    duplicate: bool = False


class PublishedBatch(Answer, kw_only=True, frozen=True):
    events: tuple[Created, ...]


class ClaimedEvent(Answer, kw_only=True, frozen=True):
    """An event that is this worker's until ``lease_expires_at``; ``fence`` is the proof.

    ``type`` and ``attempts`` are there as well, so that a handler of an EventManager can be a Worker's too.
    """

    id: int
    title: str | None
    tags: str | None
    status: Status
    payload: Any
    retry_count: int
    max_retries: int
    created_at: datetime
    attempt: int
    fence: int
    lease_expires_at: datetime
    description: str | None = None
    event_type: str | None = None
    metadata: dict[str, str] = {}
    ordering_key: str | None = None

    @property
    def type(self) -> str | None:
        return self.event_type

    @property
    def attempts(self) -> int:
        return self.attempt


class ClaimedEvents(Answer, kw_only=True, frozen=True):
    events: tuple[ClaimedEvent, ...]


class Lease(Answer, kw_only=True, frozen=True):
    """Until when a claim lasts now."""

    event_id: int
    worker_id: str
    fence: int
    lease_expires_at: datetime


class Recorded(Answer, kw_only=True, frozen=True):
    """A report as it was recorded. ``final`` means that the event failed for the last time and is a dead letter."""

    event_id: int
    worker_id: str
    action: Action
    status_code: int | None = None
    execution_time_ms: int | None = None
    created_at: datetime | None = None
    error_message: str | None = None
    retry_scheduled: bool | None = None
    next_retry_at: datetime | None = None

    @property
    def final(self) -> bool:
        return self.action is Action.FAILED and not self.retry_scheduled


class ProblemDetails(Answer, kw_only=True, frozen=True):
    """RFC 9457: what went wrong, and what to do."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    pointer: str | None = None
    error: str | None = None
    retry_count: int | None = None
    max_retries: int | None = None

    @property
    def kind(self) -> str:
        """The last part of its type: ``claim-lost``."""
        return self.type.rpartition(":")[2]

    @property
    def final_failure(self) -> bool:
        """The report of a failure was accepted, and it was the last one: an answer rather than a problem."""
        return self.retry_count is not None and self.max_retries is not None


class ReportOutcome(Answer, kw_only=True, frozen=True):
    """What became of one report of many: what was recorded, or the problem."""

    event_id: int
    status: int
    report: Recorded | None = None
    problem: ProblemDetails | None = None

    @property
    def accepted(self) -> bool:
        return self.report is not None or (self.problem is not None and self.problem.final_failure)


class ReportOutcomes(Answer, kw_only=True, frozen=True):
    results: tuple[ReportOutcome, ...]


class Orphan(Answer, kw_only=True, frozen=True):
    """An event that is being worked on, but of which nothing was heard for a while."""

    id: int
    title: str | None
    tags: str | None
    status: Status
    worker_id: str | None
    attempt: int
    silent_since: datetime
    lease_expires_at: datetime


class Orphans(Answer, kw_only=True, frozen=True):
    orphans: tuple[Orphan, ...]
    total: int


class WorkerSeen(Answer, kw_only=True, frozen=True):
    """A worker that the hub has heard of."""

    queue: str
    worker_id: str
    first_seen: datetime | None
    last_seen: datetime | None
    last_action: str | None
    open_claims: int
    stale: bool


class Workers(Answer, kw_only=True, frozen=True):
    workers: tuple[WorkerSeen, ...]
    total: int


class QueueNumbers(Answer, kw_only=True, frozen=True):
    """One queue in numbers."""

    queue: str
    depth: dict[str, int]
    waiting_for_retry: int
    oldest_pending_seconds: float | None = None
    latency_p50_seconds: float | None = None
    latency_p99_seconds: float | None = None
    failure_rate: float | None = None


class Statistics(Answer, kw_only=True, frozen=True):
    queues: tuple[QueueNumbers, ...]


class SubscriberDetails(Answer, kw_only=True, frozen=True):
    """A subscriber: what it is configured to be, and how it stands."""

    id: int
    name: str
    url: str
    event_type: str
    status: str
    version: int
    created_at: datetime
    updated_at: datetime
    reason: str | None = None
    circuit: str = "closed"
    circuit_until: datetime | None = None
    secrets: int = 1
    filter: dict[str, Any] | None = None
    headers: dict[str, str] = {}
    format: str = "standard"
    ordering_key: str | None = None
    on_dead: str = "skip"
    retry_backoff_seconds: tuple[float, ...] = ()
    retry_on: tuple[str, ...] | None = None
    connect_timeout_seconds: float | None = None
    timeout_seconds: float | None = None
    rate_per_second: float | None = None
    max_in_flight: int | None = None
    guarantee: str = "at_least_once"
    description: str | None = None


class CreatedSubscriber(SubscriberDetails, kw_only=True, frozen=True):
    """A new subscriber, with the secret that signs its messages."""

    secret: str


class Subscribers(Answer, kw_only=True, frozen=True):
    subscribers: tuple[SubscriberDetails, ...]


class NewSecret(Answer, kw_only=True, frozen=True):
    secret: str


class Counted(Answer, kw_only=True, frozen=True):
    count: int


class DeadLetterSummary(Answer, kw_only=True, frozen=True):
    """A dead letter in a list; its id is that of the message, or of the event when it was work."""

    id: int
    event_id: int
    status: Status
    reason: str
    created_at: datetime
    dead_at: datetime
    queue: str | None = None
    subscriber_id: int | None = None
    event_type: str | None = None
    ordering_key: str | None = None
    error: str | None = None
    attempt_count: int = 0
    retry_count: int = 0
    parked: bool = False


class DeadLetterPage(Answer, kw_only=True, frozen=True):
    dead_letters: tuple[DeadLetterSummary, ...]
    total: int
    next_before: int | None = None
