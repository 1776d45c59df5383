"""Messages to subscribers, the attempts at them, and the dead ones."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from eventhub.core.events import Status
from eventhub.core.lifecycle import Reason
from eventhub.http.bodies.basics import MOST_EVENTS, Answered, Asked, Id, Moment, Time

__all__ = [
    "AttemptBody",
    "DeadFilterBody",
    "DeadGroupBody",
    "DeadGroupList",
    "DeadLetterBody",
    "DeadLetterList",
    "DeadLetterRetried",
    "DeadQuery",
    "ListedDeadLetter",
    "MessageBody",
    "MessageList",
    "PurgeQuery",
    "RetryDeadBody",
]

LONGEST_SEARCH: Final = 1000


class AttemptBody(Answered):
    """One attempt at a message: what was sent when, what came back, and how long it took. Secrets are ***."""

    fence: int
    action: str
    created_at: Time
    attempt: int | UnsetType = UNSET
    worker_id: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    status_code: int | UnsetType = UNSET
    failure: Annotated[str, Meta(description="What went wrong when no answer came.")] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    dns_ms: float | UnsetType = UNSET
    connect_ms: float | UnsetType = UNSET
    first_byte_ms: float | UnsetType = UNSET
    total_ms: float | UnsetType = UNSET
    request_headers: dict[str, str] | UnsetType = UNSET
    response_headers: dict[str, str] | UnsetType = UNSET
    response_body: Annotated[str, Meta(description="Its first 16 KiB.")] | UnsetType = UNSET


class MessageBody(Answered):
    """One event on its way to one subscriber, or there."""

    id: int
    event_id: int
    subscriber_id: int
    event_type: str
    status: Status
    attempt_count: int
    retry_count: int
    max_attempts: int | None
    blocked: Annotated[bool, Meta(description="It waits behind another message of its ordering key.")]
    created_at: Time
    ordering_key: str | UnsetType = UNSET
    worker_id: str | UnsetType = UNSET
    next_retry_at: Time | UnsetType = UNSET
    lease_expires_at: Time | UnsetType = UNSET
    settled_at: Time | UnsetType = UNSET
    errors: list[str] | UnsetType = UNSET
    attempts: Annotated[list[AttemptBody], Meta(description="Oldest first; not in lists.")] | UnsetType = UNSET


class MessageList(Answered):
    messages: list[MessageBody]
    limit: int
    next_before: Annotated[int | None, Meta(description="Goes into `before` for the next page.")]


class DeadFilterBody(Asked):
    """Which dead letters; everything that is given must fit."""

    subscriber: Annotated[Id, Meta(description="Messages to this subscriber.")] | None = None
    type: Annotated[str, Meta(description="Events of exactly this type.")] | None = None
    reason: Annotated[Reason, Meta(description="Why it was given up.")] | None = None
    queue: Annotated[str, Meta(description="Messages to subscribers are in the queue hub.")] | None = None
    error: (
        Annotated[str, Meta(min_length=1, max_length=LONGEST_SEARCH, description="What its last error contains.")]
        | None
    ) = None
    since: Annotated[Moment, Meta(description="Dead at this time or later.")] | None = None
    until: Annotated[Moment, Meta(description="Dead at this time or earlier.")] | None = None
    fingerprint: (
        Annotated[
            str,
            Meta(
                pattern="^([0-9a-f]{16})?$",
                description="Of GET /dlq/groups; of the latest 10,000 that fit else, those with such an error.",
            ),
        ]
        | None
    ) = None


class DeadQuery(DeadFilterBody, kw_only=True):
    before: Annotated[Id, Meta(description="`next_before` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class PurgeQuery(DeadFilterBody, kw_only=True):
    older_than_days: Annotated[float, Meta(ge=0, le=36_500, description="Dead for so many days or longer.")]


class ListedDeadLetter(Answered):
    """A dead letter in a list. Its id is that of the message, or of the event when it was work."""

    id: int
    event_id: int
    queue: str | None
    status: Status
    reason: str
    attempt_count: int
    retry_count: int
    parked: Annotated[bool, Meta(description="It holds its ordering key until an operator acts.")]
    created_at: Time
    dead_at: Time
    subscriber_id: int | UnsetType = UNSET
    event_type: str | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    error: Annotated[str, Meta(description="The last one.")] | UnsetType = UNSET


class DeadLetterList(Answered):
    dead_letters: list[ListedDeadLetter]
    limit: int
    next_before: Annotated[int | None, Meta(description="Goes into `before` for the next page.")]
    total: Annotated[int, Meta(description="How many fit, on all pages; counted up to 100,000.")] | UnsetType = UNSET


class DeadGroupBody(Answered):
    """Dead letters that died of the same. Of types, subscribers and ids a few are told."""

    reason: str
    fingerprint: Annotated[str, Meta(description="Of the last error without its details; empty where there is none.")]
    example_error: str | None
    count: int
    first_at: Time
    last_at: Time
    types: list[str]
    subscribers: list[int]
    example_ids: list[int]


class DeadGroupList(Answered):
    groups: Annotated[list[DeadGroupBody], Meta(description="The largest first.")]
    looked_at: Annotated[int, Meta(description="The latest deaths that fit, at most 10,000.")]
    more: Annotated[bool, Meta(description="There are older ones that were not looked at.")]


class DeadLetterBody(ListedDeadLetter, kw_only=True):
    """A dead letter, whole: the event, and the subscriber as it was then."""

    title: str | None
    description: str | None
    tags: str | None
    payload: Any
    errors: Annotated[list[str], Meta(description="One for each failed attempt, in order.")]
    max_attempts: int | None
    metadata: dict[str, str] | UnsetType = UNSET
    subscriber: dict[str, Any] | UnsetType = UNSET
    worker_id: str | UnsetType = UNSET
    retried_at: Time | UnsetType = UNSET
    retried_by: str | UnsetType = UNSET


class RetryDeadBody(Asked):
    """Which dead letters get another chance: those with these ids, or all that fit the filter."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_EVENTS)] | None = None
    filter: Annotated[DeadFilterBody, Meta(description="An empty one fits all.")] | None = None
    dry_run: Annotated[bool, Meta(description="Only count.")] = False


class DeadLetterRetried(Answered):
    """How many dead letters got another chance, or would get one."""

    count: int
    dry_run: bool
