"""What workers ask for, get and report."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from eventhub.core.events import Action, Status
from eventhub.http.bodies.basics import LARGEST_ID, MOST_EVENTS, Answered, Asked, Tags, Time
from eventhub.http.bodies.problems import ProblemBody

__all__ = [
    "LONGEST_ERROR",
    "LONGEST_LEASE",
    "LONGEST_WAIT",
    "ClaimedBody",
    "ClaimedEvents",
    "CompleteBody",
    "CompleteManyBody",
    "CompletedEvent",
    "FailBody",
    "FailManyBody",
    "FailedEvent",
    "Fence",
    "HeartbeatBody",
    "Lease",
    "LeaseBody",
    "Milliseconds",
    "ReleaseBody",
    "ReportBody",
    "ReportOutcome",
    "ReportOutcomes",
    "StatusCode",
    "SubscribeBody",
    "WorkerId",
]

LONGEST_WAIT: Final = 60.0
LONGEST_LEASE: Final = 86_400.0
LONGEST_ERROR: Final = 10_000

WorkerId = Annotated[
    str, Meta(min_length=1, max_length=200, description="Who works: by habit {hostname}:{process id}.")
]
Fence = Annotated[
    int, Meta(ge=1, le=2**31 - 1, description="The claim's fence; without it, the worker's latest claim is meant.")
]
Milliseconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
StatusCode = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Lease = Annotated[float, Meta(ge=1, le=LONGEST_LEASE, description="How long the claim lasts, in seconds.")]


class SubscribeBody(Asked):
    """What a worker asks for; the same members may stand in the query of a GET."""

    tags: Annotated[Tags, Meta(description="Work with any of these tags, at most 256.")]
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
    created_at: Time
    attempt: int
    fence: int
    lease_expires_at: Time
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
    created_at: Time
    error_message: str | UnsetType | None = UNSET
    retry_scheduled: bool | UnsetType = UNSET
    next_retry_at: Time | UnsetType | None = UNSET


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
    lease_expires_at: Time


class ReleaseBody(Asked):
    worker_id: WorkerId
    fence: Fence | None = None
