"""What workers report and what they are told: plain values, the same over any wire."""

from __future__ import annotations

from datetime import datetime

import msgspec

from eventhub.core.events import Action

__all__ = ["Lease", "Recorded", "WorkReport", "WorkerState"]


class WorkReport(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, as its worker tells it. Without a fence the worker's latest claim is meant."""

    event_id: int
    worker: str
    fence: int | None = None
    error: str | None = None
    retry: bool = True
    execution_ms: int | None = None
    status_code: int | None = None
    claimed_by: str | None = None
    """The API key that it comes with, by name, which must be the one that took the claim."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A report as the log keeps it; the same report again gets the same answer, with ``repeated``.

    ``created_at`` is the time of the log row. ``retry_count`` counts the failed attempts up to this one. ``final``
    says that this failure was the last one allowed and the event is in the dead letter queue; it stays true when the
    report is repeated, so whoever treats the final failure as an error asks for ``final and not repeated``.
    """

    event_id: int
    worker: str
    action: Action
    fence: int
    status_code: int | None
    error: str | None
    execution_ms: int | None
    created_at: datetime
    retry_count: int
    max_retries: int
    retry_scheduled: bool = False
    next_retry_at: datetime | None = None
    repeated: bool = False
    final: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Until when a claim lasts now."""

    event_id: int
    worker: str
    fence: int
    expires_at: datetime


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the hub knows it; ``stale`` as ``WorkQueue.workers`` says."""

    queue: str
    name: str
    first_seen: datetime | None
    last_seen: datetime | None
    last_action: str | None
    open_claims: int
    stale: bool
