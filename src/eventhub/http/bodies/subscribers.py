"""Subscribers as they are made, changed and shown: the fields of ``core.subscribers.Subscriber``, each declared there.

What a field may be is checked where a subscriber is made, for all faces alike; here its meaning is told.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, defstruct

from eventhub.core.events import Status
from eventhub.core.subscribers import Subscriber
from eventhub.http.bodies.basics import Answered, Asked, Time

__all__ = [
    "BlockedKeyBody",
    "BlockedKeyList",
    "CreatedSubscriber",
    "NewSubscriberBody",
    "RotateSecretBody",
    "SecretBody",
    "SentTest",
    "StatsOfSubscriber",
    "SubscriberBody",
    "SubscriberChanges",
    "SubscriberList",
]

LONGEST_OVERLAP: Final = 2_592_000
SECRET_FORM: Final = "whsec_…"  # noqa: S105 - what one looks like

_MEANINGS: Final = {
    "name": "Unique; 1 to 100 characters, and not a number.",
    "url": "Where its messages are sent: http or https, and no private address unless the hub allows it.",
    "event_type": "A pattern: * takes every event, else * stands for one part between dots.",
    "filter": 'What an event must have besides, such as {"payload.country": "SE", "payload.total": {"gte": 100}}.',
    "headers": "Sent with every request. Values of secret ones are never shown.",
    "format": "How an event is put into a request.",
    "ordering_key": "What order goes by: ordering_key, or a path such as payload.customer.id; none without it.",
    "on_dead": "Whether a key goes on past a dead message, or waits for an operator.",
    "retry_backoff_seconds": "The waits before the retries, and so their number.",
    "retry_on": 'What is tried again: statuses ("429"), classes ("5xx"), "timeout", "network".',
    "connect_timeout_seconds": "For the connection.",
    "timeout_seconds": "For the whole request.",
    "rate_per_second": "Requests a second at most.",
    "max_in_flight": "Requests at once at most.",
    "guarantee": "at_most_once: one request, whatever comes of it.",
    "description": "For people.",
}
_FIELDS: Final = [
    (field.name, Annotated[field.type, Meta(description=_MEANINGS[field.name])], field)
    for field in msgspec.structs.fields(Subscriber)
]


def _with_default(name: str, kind: Any, field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.required:
        return name, kind
    if field.default is not msgspec.NODEFAULT:
        return name, kind, field.default
    return name, kind, msgspec.field(default_factory=field.default_factory)


NewSubscriberBody: Any = defstruct(
    "NewSubscriberBody",
    [
        *(_with_default(*field) for field in _FIELDS),
        ("secret", Annotated[str | None, Meta(description=f"{SECRET_FORM}; without it the hub makes one.")], None),
    ],
    bases=(Asked,),
    namespace={"__doc__": "A subscriber to be made."},
    kw_only=True,
    forbid_unknown_fields=True,
)
SubscriberChanges: Any = defstruct(
    "SubscriberChanges",
    [(name, kind | UnsetType, UNSET) for name, kind, _ in _FIELDS],
    bases=(Asked,),
    namespace={"__doc__": "What is to be different; what is not named stays as it is."},
    kw_only=True,
    forbid_unknown_fields=True,
)


class StateOfSubscriber(Answered):
    """How a subscriber stands. One that is paused or disabled gets nothing, and nothing for it is lost."""

    id: int
    status: Literal["active", "paused", "disabled"]
    reason: Annotated[str | None, Meta(description="Why it is not active.")]
    circuit: Annotated[Literal["closed", "open"], Meta(description="Open: it fails for long, so it is left in peace.")]
    circuit_until: Time | None
    version: Annotated[int, Meta(description="Grows with every change; goes into If-Match.")]
    secrets: Annotated[int, Meta(description="How many secrets sign its messages now.")]
    created_at: Time
    updated_at: Time


SubscriberBody: Any = defstruct(
    "SubscriberBody",
    [(name, kind) for name, kind, _ in _FIELDS],
    bases=(StateOfSubscriber,),
    namespace={"__doc__": "A subscriber as it may be shown: values of secret headers are ***."},
    kw_only=True,
)
CreatedSubscriber: Any = defstruct(
    "CreatedSubscriber",
    [("secret", Annotated[str, Meta(description="Signs its messages. Shown only now.")])],
    bases=(SubscriberBody,),
    namespace={"__doc__": "A new subscriber: the only time that its secret is shown."},
    kw_only=True,
)
SubscriberList: Any = defstruct(
    "SubscriberList", [("subscribers", list[SubscriberBody])], bases=(Answered,), kw_only=True
)


class RotateSecretBody(Asked):
    """The old secret signs beside the new one for the overlap."""

    overlap_seconds: Annotated[float, Meta(ge=0, le=LONGEST_OVERLAP)] = 86_400.0
    secret: Annotated[str, Meta(description=f"{SECRET_FORM}; without it the hub makes one.")] | None = None


class SecretBody(Answered):
    """A new secret: the only time that it is shown."""

    secret: str


class SentTest(Answered):
    """The event that carries the test."""

    event_id: int


class StatsOfSubscriber(Answered):
    """A subscriber in numbers; rates and latencies are those of the last hour."""

    pending: int
    waiting_for_retry: int
    behind: int
    processing: int
    dead: int
    blocked_keys: int
    parked_keys: int
    oldest_pending_seconds: float | None
    delivered_last_hour: int
    failed_last_hour: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    last_delivered_at: Time | None
    last_failed_at: Time | None


class BlockedKeyBody(Answered):
    """An ordering key whose first message has failed or is dead, and holds the others."""

    key: str
    message_id: int
    event_id: int
    status: Status
    parked: Annotated[bool, Meta(description="It is dead, and holds its key until an operator acts.")]
    attempt_count: int
    retry_count: int
    error: str | None
    next_retry_at: Time | None
    waiting: Annotated[int, Meta(description="Messages behind it, counted up to 10,000.")]
    since: Time


class BlockedKeyList(Answered):
    keys: list[BlockedKeyBody]
    limit: int
    next_after: Annotated[str | None, Meta(description="Goes into `after` for the next page.")]
