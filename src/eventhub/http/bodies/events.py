"""Events as they are published, shown and listed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from eventhub.core.events import Action, Status
from eventhub.http.bodies.basics import MOST_EVENTS, Answered, Asked, EventType, Seconds, Tags, Time

__all__ = [
    "Created",
    "EventBody",
    "EventList",
    "ListedEvent",
    "LogBody",
    "NewEventBatch",
    "NewEventBody",
    "PublishedBatch",
]


class NewEventBody(Asked):
    """An event to publish: with tags it is work for one worker, with an event type it is broadcast, or both."""

    title: Annotated[str, Meta(max_length=10_000)] | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    tags: (
        Annotated[Tags, Meta(description='As "a, b" or ["a", "b"], at most 64; a worker takes it by any of them.')]
        | None
    ) = None
    event_type: Annotated[EventType, Meta(description="Also as `type`.")] | None = None
    type: EventType | None = None
    payload: Annotated[Any, Meta(description="Any JSON; a broadcast needs one, which may be null.")] = UNSET
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
    next_retry_at: Time | None
    created_at: Time
    updated_at: Time
    event_type: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    idempotency_key: str | UnsetType = UNSET
    errors: list[str] | UnsetType = UNSET
    published_by: Annotated[str, Meta(description="The name of the API key that published it.")] | UnsetType = UNSET
    logs: list[LogBody] | UnsetType = UNSET
    archived: Annotated[bool, Meta(description="It has left the database and was read from the lake.")] | UnsetType = (
        UNSET
    )


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
    created_at: Time
    worker_id: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    status_code: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    execution_time_ms: int | UnsetType = UNSET
    delivery_id: Annotated[int, Meta(description="Of a message to a subscriber, its id.")] | UnsetType = UNSET
    subscriber_id: Annotated[int, Meta(description="Whose message it tells of.")] | UnsetType = UNSET
    subscriber: Annotated[str, Meta(description="Its name, unless it was removed.")] | UnsetType = UNSET


class ListedEvent(Answered):
    """An event in a list: without its payload."""

    id: int
    title: str | None
    status: Status
    tags: str | None
    retry_count: int
    created_at: Time
    updated_at: Time
    next_retry_at: Time | UnsetType = UNSET
    event_type: str | UnsetType = UNSET


class EventList(Answered):
    """A page: with ``offset`` the total is counted, with ``cursor`` it is not, so that any page costs the same."""

    events: list[ListedEvent]
    limit: int
    total: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET
