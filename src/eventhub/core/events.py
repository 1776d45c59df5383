"""What an event is, the five public statuses, and the actions of the log."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

__all__ = ["REPLAY_OF", "Action", "DeadEvent", "Event", "LogEntry", "QueuedEvent", "Status"]

REPLAY_OF: Final = "replay_of"
"""The name in the metadata under which a replayed event has the id of the first."""


class Status(StrEnum):
    """The only words for a status that anyone outside the store ever sees."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"


class Action(StrEnum):
    """What can happen to an event, as the append-only log tells it."""

    PUBLISHED = "PUBLISHED"
    PICKED = "PICKED"
    STARTED = "STARTED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"
    RESET = "RESET"
    RELEASED = "RELEASED"
    DEAD = "DEAD"
    RETRIED = "RETRIED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


class Event(msgspec.Struct, kw_only=True, frozen=True):
    """An immutable fact, with its status and counters as they were when it was read."""

    id: int
    type: str
    payload: Any
    metadata: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    ordering_key: str | None = None
    idempotency_key: str | None = None
    created_at: datetime
    status: Status = Status.PENDING
    attempts: int = 0
    retry_count: int = 0

    def copy(self) -> Self:
        """The same event with a payload and metadata of its own, for somebody who may change them."""
        return msgspec.structs.replace(self, payload=_copied(self.payload), metadata=dict(self.metadata))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value


class QueuedEvent(Event, kw_only=True, frozen=True):
    """An event in a queue; after a poll its ``fence`` is the proof of the claim.

    ``sent_tags`` are its tags as the publisher wrote them. ``published_by`` is the name of the API key that it came
    with, told where one event is looked at.
    """

    queue: str = "default"
    sent_tags: str | None = None
    fence: int = 0
    updated_at: datetime
    lease_expires_at: datetime | None = None
    next_retry_at: datetime | None = None
    errors: tuple[str, ...] = ()
    published_by: str | None = None


class DeadEvent(Event, kw_only=True, frozen=True):
    """An event in the dead letter queue, with everything needed to understand why."""

    errors: list[str] = []
    dead_at: datetime
    reason: str
    queue: str | None = None
    worker: str | None = None
    retried_at: datetime | None = None
    retried_by: str | None = None


class LogEntry(msgspec.Struct, kw_only=True, frozen=True):
    """One row of the append-only log. ``subscriber`` is told of a message that was taken or cancelled."""

    id: int
    event_id: int
    delivery_id: int | None
    action: Action
    worker: str | None = None
    attempt: int | None = None
    fence: int | None = None
    status_code: int | None = None
    error: str | None = None
    execution_ms: int | None = None
    created_at: datetime
    subscriber: int | None = None
