"""Rows of the hub's tables turned into values, for either engine; only the form of times differs, and is passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from eventhub.store.claims import Held
from eventhub.store.messages import Marker, MessageClaim, SubscriberRow, load_targets

__all__ = ["to_marker", "to_message_claim", "to_subscriber"]


def to_subscriber(row: Sequence[Any], time: Callable[[Any], datetime]) -> SubscriberRow:
    number, name, document, sealed, status, reason, circuit, until, opens, version, created_at, updated_at = row
    return SubscriberRow(
        id=number,
        name=name,
        document=document,
        sealed=None if sealed is None else bytes(sealed),
        status=status,
        reason=reason,
        circuit=circuit,
        circuit_until=None if until is None else time(until),
        circuit_opens=opens,
        version=version,
        created_at=time(created_at),
        updated_at=time(updated_at),
    )


def to_marker(row: Sequence[Any]) -> Marker:
    event_id, type_, ordering_key, metadata, payload, targets, alone, due = row
    return Marker(event_id, type_, ordering_key, metadata, payload, load_targets(targets), bool(alone), due)


def to_message_claim(row: Sequence[Any], time: Callable[[Any], datetime], *, raised: int = 0) -> MessageClaim:
    """A claimed row; ``raised`` is what the claim added to fence and attempts after the row was read."""
    (
        number,
        fence,
        lane,
        subscriber,
        event_id,
        type_,
        payload,
        metadata,
        key,
        created_at,
        attempts,
        failures,
        limit,
        at,
    ) = row[:14]
    return MessageClaim(
        Held(number, fence + raised, lane),
        subscriber,
        event_id,
        type_,
        payload,
        metadata,
        key,
        time(created_at),
        attempts + raised,
        failures,
        limit,
        time(at),
    )
