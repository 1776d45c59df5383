"""What goes over the wire: the types that check every request and describe every answer.

The OpenAPI document is made from these same types. A member that is ``UNSET`` is left out of an answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from eventhub.core.events import Action, Status

__all__ = [
    "LARGEST_ID",
    "MOST_EVENTS",
    "Asked",
    "ClaimedBody",
    "ClaimedEvents",
    "CompleteBody",
    "CompleteManyBody",
    "Created",
    "CreatedKey",
    "EventBody",
    "EventList",
    "FailBody",
    "FailManyBody",
    "Health",
    "HeartbeatBody",
    "KeyBody",
    "KeyList",
    "LeaseBody",
    "ListedEvent",
    "LogBody",
    "NewEventBatch",
    "NewEventBody",
    "NewKeyBody",
    "OrphanBody",
    "OrphanList",
    "ProblemBody",
    "PublishedBatch",
    "QueueBody",
    "ReleaseBody",
    "ReportBody",
    "ReportOutcome",
    "ReportOutcomes",
    "StatsBody",
    "SubscribeBody",
    "WorkerBody",
    "WorkerList",
]

MOST_EVENTS: Final = 1000
LARGEST_ID: Final = 2**63 - 1
LONGEST_WAIT: Final = 60.0
LONGEST_LEASE: Final = 86_400.0
LONGEST_ERROR: Final = 10_000

WorkerId = Annotated[
    str, Meta(min_length=1, max_length=200, description="Who works: by habit {hostname}:{process id}.")
]
Tags = str | list[str]
EventType = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9._:-]{1,128}$"})]
"""The rule is told here and enforced where events are composed, for all publishers alike."""
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]
Fence = Annotated[
    int, Meta(ge=1, le=2**31 - 1, description="The claim's fence; without it, the worker's latest claim is meant.")
]
Milliseconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
StatusCode = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Lease = Annotated[float, Meta(ge=1, le=LONGEST_LEASE, description="How long the claim lasts, in seconds.")]


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends: unknown members are refused, because they are misspelt ones."""


class Answered(msgspec.Struct, kw_only=True):
    """A body that the hub answers with."""


# ---------------------------------------------------------------- publishing


class NewEventBody(Asked):
    """An event to publish: with tags it is work for one worker, with an event type it is broadcast, or both."""

    title: Annotated[str, Meta(max_length=10_000)] | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    tags: Annotated[Tags, Meta(description='As "a, b" or ["a", "b"]; a worker takes it by any of them.')] | None = None
    event_type: Annotated[EventType, Meta(description="Also as `type`.")] | None = None
    type: EventType | None = None
    payload: Any = None
    metadata: dict[str, str] | None = None
    ordering_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    deliver_at: Annotated[datetime, Meta(tz=True)] | None = None
    delay_seconds: Seconds | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | None = None


class NewEventBatch(Asked):
    events: Annotated[list[NewEventBody], Meta(min_length=1, max_length=MOST_EVENTS)]


class EventBody(Answered):
    """An event, whole, with where its work stands."""

    id: int
    title: str | None
    description: str | None
    tags: str | None
    status: Status
    payload: Any
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    created_at: datetime
    updated_at: datetime
    event_type: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    idempotency_key: str | UnsetType = UNSET
    errors: list[str] | UnsetType = UNSET
    logs: list[LogBody] | UnsetType = UNSET


class Created(Answered):
    """One event of a batch: its id, and whether its idempotency key stood for it before."""

    id: int
    duplicate: bool


class PublishedBatch(Answered):
    events: list[Created]


class LogBody(Answered):
    """One thing that happened to an event."""

    id: int
    event_id: int
    action: Action
    created_at: datetime
    worker_id: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    status_code: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    execution_time_ms: int | UnsetType = UNSET


class ListedEvent(Answered):
    """An event in a list: without its payload."""

    id: int
    title: str | None
    status: Status
    tags: str | None
    retry_count: int
    created_at: datetime
    updated_at: datetime
    next_retry_at: datetime | UnsetType = UNSET
    event_type: str | UnsetType = UNSET


class EventList(Answered):
    """A page: with ``offset`` the total is counted, with ``cursor`` it is not, so that any page costs the same."""

    events: list[ListedEvent]
    limit: int
    total: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET


# ------------------------------------------------------------------- working


class SubscribeBody(Asked):
    """What a worker asks for; the same members may stand in the query of a GET."""

    tags: Annotated[Tags, Meta(description="Work with any of these tags.")]
    worker_id: WorkerId
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait when there is no work yet.")] = 0.0
    limit: Annotated[int, Meta(ge=1, le=MOST_EVENTS, description="Answer with a list of at most so many.")] | None = (
        None
    )
    lease_seconds: Lease | None = None


class ClaimedBody(Answered):
    """An event that is the worker's now, until ``lease_expires_at``."""

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
    description: str | UnsetType = UNSET
    event_type: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET


class ClaimedEvents(Answered):
    events: list[ClaimedBody]


class CompleteBody(Asked):
    worker_id: WorkerId
    execution_time_ms: Milliseconds | None = None
    status_code: StatusCode | None = None
    fence: Fence | None = None


class FailBody(Asked):
    worker_id: WorkerId
    execution_time_ms: Milliseconds | None = None
    status_code: StatusCode | None = None
    error_message: Annotated[str, Meta(max_length=LONGEST_ERROR)] | None = None
    retry: Annotated[bool, Meta(description="False: no retry can help, so it is dead at once.")] = True
    fence: Fence | None = None


class CompletedEvent(CompleteBody, kw_only=True):
    """A report about one event of many."""

    event_id: Annotated[int, Meta(ge=1, le=LARGEST_ID)]


class FailedEvent(FailBody, kw_only=True):
    """A report about one event of many."""

    event_id: Annotated[int, Meta(ge=1, le=LARGEST_ID)]


class CompleteManyBody(Asked):
    reports: Annotated[list[CompletedEvent], Meta(min_length=1, max_length=MOST_EVENTS)]


class FailManyBody(Asked):
    reports: Annotated[list[FailedEvent], Meta(min_length=1, max_length=MOST_EVENTS)]


class ReportBody(Answered):
    """A report as it was recorded; repeating it gives the same answer."""

    event_id: int
    worker_id: str
    action: Action
    status_code: int | None
    execution_time_ms: int | None
    created_at: datetime
    error_message: str | UnsetType | None = UNSET
    retry_scheduled: bool | UnsetType = UNSET
    next_retry_at: datetime | UnsetType | None = UNSET


class ReportOutcome(Answered):
    """What became of one report of many: what was recorded, or the problem."""

    event_id: int
    status: int
    report: ReportBody | UnsetType = UNSET
    problem: ProblemBody | UnsetType = UNSET


class ReportOutcomes(Answered):
    results: list[ReportOutcome]


class HeartbeatBody(Asked):
    """Says that the worker is still at it: also the body of ``start``."""

    worker_id: WorkerId
    lease_seconds: Lease | None = None
    fence: Fence | None = None


class LeaseBody(Answered):
    event_id: int
    worker_id: str
    fence: int
    lease_expires_at: datetime


class ReleaseBody(Asked):
    worker_id: WorkerId
    fence: Fence | None = None


# ----------------------------------------------------------------- operating


class OrphanBody(Answered):
    """An event that is being worked on, but nothing was heard of it for a while."""

    id: int
    title: str | None
    tags: str | None
    status: Status
    worker_id: str | None
    attempt: int
    silent_since: datetime
    lease_expires_at: datetime


class OrphanList(Answered):
    orphans: list[OrphanBody]
    total: int


class WorkerBody(Answered):
    worker_id: str
    first_seen: datetime | None
    last_seen: datetime | None
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


# ---------------------------------------------------------------------- keys


class NewKeyBody(Asked):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[
        list[str], Meta(min_length=1, max_length=50, description="publish, work, read, admin; or publish:order.*, …")
    ]
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class KeyBody(Answered):
    """An API key as it may be shown: never with its secret."""

    id: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class CreatedKey(KeyBody):
    """A new key: the only time that it is shown whole."""

    key: str


class KeyList(Answered):
    keys: list[KeyBody]


# ------------------------------------------------------------------ problems


class ProblemBody(Answered):
    """RFC 9457: what went wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    pointer: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    retry_count: int | UnsetType = UNSET
    max_retries: int | UnsetType = UNSET
