"""A claim: what a worker asks for, the proof that it is his for a while, and the event that comes with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from eventhub.core.events import QueuedEvent, Status
from eventhub.core.strict_json import readable

__all__ = ["FIRST_CLAIM", "Claim", "Held", "Lease", "Unread", "Wanted"]

FIRST_CLAIM: Final = 1
"""The fence and the attempt of whoever claims a delivery for the first time."""
_PROCESSING = Status.PROCESSING  # to name it by its class each time costs more than to make the rest of an event


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for. A ``now`` stands for the database's clock."""

    queue: str
    worker: str
    lease: timedelta
    limit: int = 1
    tags: frozenset[str] | None = None
    types: frozenset[str] | None = None
    """Patterns of event types; None means all."""
    max_attempts: int | None = None
    claimed_by: str | None = None
    """The API key that it is asked for with, by name: nobody else can report on the claim."""
    now: datetime | None = None
    most_bytes: int | None = None

    @property
    def what(self) -> tuple[object, ...]:
        """All but who and how many."""
        return self.queue, self.tags, self.types, self.lease, self.max_attempts, self.claimed_by, self.now


class Held(msgspec.Struct, frozen=True, gc=False):
    """Proof of a claim: a delivery and the fence number it was claimed with."""

    id: int
    fence: int
    lane: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """What the claims of one statement have in common."""

    queue: str
    begins: datetime
    ends: datetime
    first_fence: int = FIRST_CLAIM
    """Of a claim that is the first of its delivery."""
    older: int = 0
    """Deliveries up to this id are from earlier incarnations, whose claims do not show in the fence."""

    def is_again(self, held: Held) -> bool:
        """Whether the delivery may have been claimed before."""
        return held.fence > self.first_fence or held.id <= self.older


class Unread(msgspec.Struct, frozen=True, gc=False):
    """A plain event that is claimed for the first time, as it came from the database."""

    id: int
    type: str
    payload: str
    created_at: datetime
    lease: Lease

    def read(self) -> QueuedEvent:
        return QueuedEvent(
            id=self.id,
            type=self.type,
            payload=readable(self.payload),
            created_at=self.created_at,
            status=_PROCESSING,
            attempts=FIRST_CLAIM,
            retry_count=0,
            queue=self.lease.queue,
            fence=self.lease.first_fence,
            updated_at=self.lease.begins,
            lease_expires_at=self.lease.ends,
        )


class Claim(msgspec.Struct, gc=False):
    """A delivery leased to a worker, with its event, which is read when it is asked for.

    A process holds many claims at once: texts take less room in the processor's cache than what is in them, and what is
    read, handled and forgotten at once never comes before the garbage collector.
    """

    held: Held
    given: QueuedEvent | Unread
    max_attempts: int | None
    size: int = 0
    """Of the payload's text, about."""
    again: bool = False
    """The delivery may have been claimed before, and some of its handlers may be done."""

    @property
    def event(self) -> QueuedEvent:
        given = self.given
        if type(given) is Unread:
            given = self.given = given.read()
        return given  # type: ignore[return-value]

    @property
    def claimed_at(self) -> datetime:
        return self.event.updated_at

    @property
    def lease_expires_at(self) -> datetime:
        return self.event.lease_expires_at or self.event.updated_at
