"""What virtual processes ask of the store, as values: the same call goes to the memory and to a real store."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from eventhub.store.claims import Held
from eventhub.store.values import NewEvent, Published, Report

__all__ = [
    "Call",
    "Claim",
    "ClaimMessages",
    "Extend",
    "FanOut",
    "Grant",
    "Publish",
    "Refused",
    "Reply",
    "Reset",
    "RetryDead",
    "Settle",
    "TakeBack",
    "Tend",
    "Unpark",
]


class Publish(msgspec.Struct, frozen=True):
    """Store these events, all or none."""

    events: tuple[NewEvent, ...]


class Claim(msgspec.Struct, frozen=True):
    """Lease work."""

    worker: str
    lease: timedelta
    limit: int
    max_attempts: int | None


class ClaimMessages(msgspec.Struct, frozen=True):
    """Lease messages of one subscriber."""

    subscriber: int
    worker: str
    lease: timedelta
    most: int
    roll: float


class FanOut(msgspec.Struct, frozen=True):
    """Make messages of the oldest broadcasts."""

    limit: int


class Settle(msgspec.Struct, frozen=True):
    """Report how claims ended."""

    reports: tuple[Report, ...]


class Extend(msgspec.Struct, frozen=True):
    """Make a lease longer."""

    held: Held
    lease: timedelta


class Tend(msgspec.Struct, frozen=True):
    """Make ready what is due, and take back what is abandoned."""


class TakeBack(msgspec.Struct, frozen=True):
    """Abandon the claims of a worker that is known to be dead."""

    worker: str


class Reset(msgspec.Struct, frozen=True):
    """Take work away from whoever holds it."""

    delivery: int


class RetryDead(msgspec.Struct, frozen=True):
    """Give a dead delivery a fresh start."""

    delivery: int


class Unpark(msgspec.Struct, frozen=True):
    """Let a key go on past its dead head."""

    consumer: str
    key: str


Call = Publish | Claim | ClaimMessages | FanOut | Settle | Extend | Tend | TakeBack | Reset | RetryDead | Unpark


class Grant(msgspec.Struct, frozen=True):
    """A delivery that was leased, whoever it is for."""

    held: Held
    event: int
    payload: str
    attempts: int
    failures: int
    max_attempts: int | None


class Refused(msgspec.Struct, frozen=True):
    """The publisher used an idempotency key for another event."""


Reply = list[Published] | list[Grant] | list[bool] | Refused | bool | int | None
