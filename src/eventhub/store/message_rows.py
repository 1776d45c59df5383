"""Rows about messages and dead letters turned into values, for either engine; only the form of times differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from eventhub.core.events import Status
from eventhub.core.lifecycle import State, public_status
from eventhub.core.strict_json import decode
from eventhub.store.messages import HUB, Attempt, BlockedKey, DeadLetter, Message, SubscriberStats
from eventhub.store.routes import KnownRoutes
from eventhub.store.rows import to_dead

__all__ = [
    "subscribers_in",
    "to_attempt",
    "to_blocked_key",
    "to_dead_letter",
    "to_message",
    "to_stats",
]

Time = Callable[[Any], datetime]
MOST_DIGITS = 18
"""Of a subscriber; a longer tag in the queue of that name is somebody else's."""


def subscribers_in(known: KnownRoutes) -> list[int]:
    """Everyone that messages were ever made for: each has a route of its own, which stays."""
    found = {route.tags for route in known.find(HUB, None)}
    return sorted(int(tags) for tags in found if len(tags) <= MOST_DIGITS and tags.isascii() and tags.isdecimal())


def to_message(row: Sequence[Any], time: Time) -> Message:
    """A row of the view ``messages``."""
    (number, event_id, subscriber, type_, state, status, attempts, failures, max_attempts, key, worker, due, errors) = (
        row[:13]
    )
    return Message(
        id=number,
        event_id=event_id,
        subscriber=subscriber,
        type=type_,
        status=Status(status),
        attempts=attempts,
        retry_count=failures,
        max_attempts=max_attempts,
        ordering_key=key,
        blocked=state == State.BEHIND,
        worker=worker,
        next_retry_at=_maybe(due, time) if state == State.WAITING else None,
        lease_expires_at=_maybe(due, time) if state == State.LEASED else None,
        errors=tuple(decode(errors)) if errors else (),
        created_at=time(row[13]),
        settled_at=_maybe(row[14], time),
    )


def to_attempt(row: Sequence[Any], time: Time) -> Attempt:
    message_id, fence, event_id, subscriber, action, created_at, detail = row
    return Attempt(
        message_id=message_id,
        fence=fence,
        event_id=event_id,
        subscriber=subscriber,
        action=action,
        created_at=time(created_at),
        detail=decode(detail),
    )


def to_stats(row: Sequence[Any], times: Iterable[Any], time: Time) -> SubscriberStats:
    pending, waiting, behind, processing, dead, blocked, parked, oldest, delivered, failed = row[:10]
    delivered_at, failed_at = row[10:]
    latencies = sorted(float(took) for (took,) in times if took is not None)
    return SubscriberStats(
        pending=pending,
        waiting_for_retry=waiting,
        behind=behind,
        processing=processing,
        dead=dead,
        blocked_keys=blocked,
        parked_keys=parked,
        oldest_pending_seconds=oldest,
        delivered_last_hour=delivered,
        failed_last_hour=failed,
        latency_p50_ms=_share(latencies, 0.5),
        latency_p99_ms=_share(latencies, 0.99),
        last_delivered_at=_maybe(delivered_at, time),
        last_failed_at=_maybe(failed_at, time),
    )


def to_blocked_key(row: Sequence[Any], time: Time) -> BlockedKey:
    key, message_id, event_id, state, attempts, failures, error, due, waiting, created_at = row
    return BlockedKey(
        key=key,
        message_id=message_id,
        event_id=event_id,
        parked=state == State.PARKED,
        status=public_status(State(state)),
        attempts=attempts,
        retry_count=failures,
        error=error,
        next_retry_at=_maybe(due, time),
        waiting=waiting,
        since=time(created_at),
    )


def to_dead_letter(row: Sequence[Any], time: Time) -> DeadLetter:
    """A row of the view ``letters``."""
    letter_id, delivery_id, subscriber, consumer, max_attempts, parked = row[20:26]
    return DeadLetter(
        **msgspec.structs.asdict(to_dead(row, time)),
        letter_id=letter_id,
        delivery_id=delivery_id,
        subscriber=subscriber,
        consumer=None if consumer is None else decode(consumer),
        parked=bool(parked),
        max_attempts=max_attempts,
    )


def _maybe(moment: Any, time: Time) -> datetime | None:
    return None if moment is None else time(moment)


def _share(ordered: list[float], share: float) -> float | None:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None
