"""What the live stream tells."""

from __future__ import annotations

from eventhub.core.events import Action
from eventhub.http.bodies.basics import Answered, Time

__all__ = ["LiveEntry", "LiveLog"]


class LiveEntry(Answered):
    """Something that happened to an event."""

    id: int
    event_id: int
    delivery_id: int | None
    action: Action
    type: str | None
    worker: str | None
    subscriber_id: int | None
    attempt: int | None
    error: str | None
    created_at: Time


class LiveLog(Answered):
    """What happened since the last time, oldest first; ``missed`` happened, too, but is not told."""

    entries: list[LiveEntry]
    missed: int
