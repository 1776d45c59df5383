"""The hub's part of the store as plain values: subscribers, markers, messages and the attempts at them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from eventhub.core.events import DeadEvent, Status
from eventhub.core.matching import RESERVED
from eventhub.store.claims import Held
from eventhub.store.values import Route

__all__ = [
    "FANOUT",
    "HUB",
    "Attempt",
    "BlockedKey",
    "DeadBrief",
    "DeadFilter",
    "DeadLetter",
    "DeadLetterPage",
    "FannedOut",
    "Marker",
    "Message",
    "MessageClaim",
    "MessageFilter",
    "Placement",
    "Plan",
    "SubscriberRow",
    "SubscriberStats",
    "WantedMessages",
    "consumer_of",
    "dump_targets",
    "load_targets",
    "routes_of",
]

HUB: Final = RESERVED
"""The queue that messages to subscribers wait in."""
FANOUT: Final = "fanout"
"""The name by which the fan-out is woken."""


def consumer_of(subscriber: int) -> str:
    """The name under which a subscriber's ordering keys are kept."""
    return f"subscriber:{subscriber}"


@lru_cache(maxsize=10_000)
def routes_of(subscriber: int) -> tuple[Route, Route]:
    """Where a subscriber's messages wait: for their first attempt, and after a failure."""
    tags = (str(subscriber),)
    return Route(HUB, tags, 0), Route(HUB, tags, -1)


def dump_targets(targets: tuple[int, ...]) -> str:
    return msgspec.json.encode(targets).decode()


def load_targets(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(msgspec.json.decode(text))


class SubscriberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber as it is kept. ``document`` is JSON text without secrets; ``sealed`` has them, encrypted."""

    id: int
    name: str
    document: str
    sealed: bytes | None
    status: str = "active"
    reason: str | None = None
    circuit: str = "closed"
    circuit_until: datetime | None = None
    circuit_opens: int = 0
    version: int = 1
    created_at: datetime
    updated_at: datetime


class Marker(msgspec.Struct, frozen=True):
    """A broadcast event that is to be handed out. The payload is there when the plan asked for payloads."""

    event_id: int
    type: str
    ordering_key: str | None
    metadata: str | None
    payload: str | None
    targets: tuple[int, ...] | None
    alone: bool
    due: Any = None


class Placement(msgspec.Struct, frozen=True):
    """One message to be made: an event for a subscriber, perhaps with the key that its order goes by."""

    event_id: int
    subscriber: int
    key: str | None
    parks: bool
    max_attempts: int | None


class Plan(msgspec.Struct, frozen=True):
    """How to hand out: by the subscribers as of ``version``, whose routes are known beforehand.

    ``place`` gives the messages of one marker; it must be quick and touch nothing, for others wait meanwhile.
    """

    version: int
    routes: frozenset[Route]
    needs_payload: bool
    place: Callable[[Marker], list[Placement]]


class FannedOut(msgspec.Struct, frozen=True):
    """What one round did. ``stale``: the subscribers have changed since the plan; ``busy``: another process does it."""

    events: int = 0
    messages: int = 0
    stale: bool = False
    busy: bool = False
    more: bool = False


class WantedMessages(msgspec.Struct, frozen=True):
    """How many messages of a subscriber a dispatcher has room for."""

    subscriber: int
    most: int


class MessageClaim(msgspec.Struct, frozen=True):
    """A message leased to a dispatcher, with its event as it was stored: the payload is text."""

    held: Held
    subscriber: int
    event_id: int
    type: str
    payload: str
    metadata: str | None
    ordering_key: str | None
    created_at: datetime
    attempts: int
    failures: int
    max_attempts: int | None
    claimed_at: datetime
    """By the database's clock."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a message, as the dispatcher told it."""

    message_id: int
    fence: int
    event_id: int
    subscriber: int
    action: str
    created_at: datetime
    detail: dict[str, Any]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as people see it: one event on its way to one subscriber, or there."""

    id: int
    event_id: int
    subscriber: int
    type: str
    status: Status
    attempts: int
    retry_count: int
    max_attempts: int | None
    ordering_key: str | None = None
    blocked: bool = False
    """It waits behind another message of its key."""
    worker: str | None = None
    next_retry_at: datetime | None = None
    lease_expires_at: datetime | None = None
    errors: tuple[str, ...] = ()
    created_at: datetime
    """When its event was published."""
    settled_at: datetime | None = None


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages to list, newest first."""

    subscriber: int | None = None
    event_id: int | None = None
    status: Status | None = None
    before_id: int | None = None
    limit: int = 50


class SubscriberStats(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber in numbers; the rates and latencies are those of the last hour."""

    pending: int = 0
    waiting_for_retry: int = 0
    behind: int = 0
    processing: int = 0
    dead: int = 0
    blocked_keys: int = 0
    parked_keys: int = 0
    oldest_pending_seconds: float | None = None
    delivered_last_hour: int = 0
    failed_last_hour: int = 0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    last_delivered_at: datetime | None = None
    last_failed_at: datetime | None = None


class BlockedKey(msgspec.Struct, frozen=True, kw_only=True):
    """An ordering key of a subscriber whose first message has failed or is dead and holds the others."""

    key: str
    message_id: int
    event_id: int
    parked: bool
    status: Status
    attempts: int
    retry_count: int
    error: str | None
    next_retry_at: datetime | None
    waiting: int
    """Messages behind it, counted up to ten thousand."""
    since: datetime
    """When its event was published."""


class DeadLetter(DeadEvent, kw_only=True, frozen=True):
    """A dead letter in full: the event and its consumer as they were when it died."""

    letter_id: int
    delivery_id: int
    subscriber: int | None = None
    consumer: dict[str, Any] | None = None
    parked: bool = False
    max_attempts: int | None = None


class DeadBrief(msgspec.Struct, frozen=True):
    """What letters are grouped by: a letter without its event, and with the beginning of its last error."""

    delivery_id: int
    reason: str
    type: str
    subscriber: int | None
    dead_at: datetime
    error: str | None


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; every given field must fit."""

    ids: tuple[int, ...] | None = None
    """Delivery ids; that of work is its event's."""
    queue: str | None = None
    subscriber: int | None = None
    type: str | None = None
    reason: str | None = None
    error: str | None = None
    """A text that its last error contains."""
    dead_since: datetime | None = None
    dead_until: datetime | None = None
    before_id: int | None = None
    """Goes on below this letter id."""
    offset: int = 0
    limit: int = 100


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters, the latest death first, and how many fit the filter in all."""

    letters: list[DeadLetter]
    total: int
