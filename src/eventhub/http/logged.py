"""The log of an event as it is shown: every row with whose message it tells of.

Only the rows that begin or cancel a message name its subscriber; the others are known by the delivery they belong to.
Rows about work are as seed 003 has them: work is one delivery, and nobody asks which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from eventhub.core.events import Action, LogEntry
from eventhub.http.answers import given
from eventhub.http.bodies.events import LogBody
from eventhub.store import Store

__all__ = ["logged"]

FEW: Final = 20
"""So many are looked up one by one; for more, all subscribers are read at once."""


async def logged(store: Store, entries: Sequence[LogEntry]) -> list[LogBody]:
    """The rows, in order."""
    subscribers = await _subscribers(store, entries)
    names = await _names(store, set(subscribers.values()))
    return [_body(entry, subscribers.get(entry.delivery_id or 0), names) for entry in entries]


async def _subscribers(store: Store, entries: Iterable[LogEntry]) -> dict[int, int]:
    """Whose message each delivery is; work belongs to nobody."""
    found: dict[int, int] = {}
    untold: dict[int, None] = {}
    for entry in entries:
        if entry.delivery_id is None:
            continue
        if entry.subscriber is not None:
            found[entry.delivery_id] = entry.subscriber
        elif entry.action is not Action.PUBLISHED:
            untold[entry.delivery_id] = None
    taken = {entry.delivery_id for entry in entries if entry.action is Action.PICKED}
    for delivery in [number for number in untold if number not in found and number not in taken][:FEW]:
        message = await store.message(delivery)  # given up before anybody took it
        if message is not None:
            found[delivery] = message.subscriber
    return found


async def _names(store: Store, ids: set[int]) -> dict[int, str]:
    """Their names; one that was removed has none any more."""
    if len(ids) > FEW:
        return {row.id: row.name for row in (await store.subscribers())[1]}
    rows = [await store.subscriber(number) for number in ids]
    return {row.id: row.name for row in rows if row is not None}


def _body(entry: LogEntry, subscriber: int | None, names: dict[int, str]) -> LogBody:
    return LogBody(
        id=entry.id,
        event_id=entry.event_id,
        delivery_id=given(entry.delivery_id if subscriber is not None else None),
        action=entry.action,
        created_at=entry.created_at,
        worker_id=given(entry.worker),
        attempt=given(entry.attempt),
        status_code=given(entry.status_code),
        error_message=given(entry.error),
        execution_time_ms=given(entry.execution_ms),
        subscriber_id=given(subscriber),
        subscriber=given(None if subscriber is None else names.get(subscriber)),
    )
