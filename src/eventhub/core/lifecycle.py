"""The life of a delivery: five states, the moves between them, and what each move writes to the log.

                       ┌───────────── release, abandon, retry(0) ─────────────┐
                       ▼                                                      │
   publish ──────▶  READY ─────────────── claim ─────────────────────────▶ LEASED ── complete ─▶ (gone)
      │               ▲  ▲                                                    │
      │ later         │  └────── due ────── WAITING ◀──── retry(d), release(d)┤
      ├──────────▶ WAITING                                                    │
      │ key is taken  │ predecessor ended                                     │
      └──────────▶ BEHIND                                                     └── bury ─▶ (gone) or PARKED
                                                                  admin retry ◀── the dead letter remembers

Only READY is in the claim index, so a claim costs the same whatever waits. The head of an ordering key is the one
delivery of that key that is not BEHIND; the database enforces that there is at most one.
"""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from eventhub.core.events import Action, Status

__all__ = [
    "MOVES",
    "Bury",
    "Complete",
    "Move",
    "Outcome",
    "Reason",
    "Release",
    "Retry",
    "State",
    "event_status",
    "public_status",
]


class State(IntEnum):
    """Where a delivery stands, as the ``state`` column holds it. Settled deliveries are gone from the table."""

    READY = 0
    LEASED = 1
    BEHIND = 2
    WAITING = 3
    PARKED = 4


class Move(StrEnum):
    """What can be done to a delivery."""

    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"
    ABANDON = "abandon"
    EXTEND = "extend"
    RESET = "reset"
    PROMOTE = "promote"
    ADVANCE = "advance"
    REVIVE = "revive"


class Reason(StrEnum):
    """Why a delivery was given up."""

    EXHAUSTED = "retries_exhausted"
    WORKER_LOST = "worker_lost"
    REJECTED = "rejected"
    FINALIZED = "finalized"
    MANUAL = "manual"
    GONE = "gone"
    BLOCKED = "blocked_destination"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


GONE: Final = None
"""The place of a settled delivery: its row is deleted, its story is in the log."""

MOVES: Final[dict[Move, tuple[frozenset[State], frozenset[State | None], Action | None]]] = {
    # move: (allowed from, may lead to, what the log says)
    Move.CLAIM: (frozenset({State.READY}), frozenset({State.LEASED}), Action.PICKED),
    Move.COMPLETE: (frozenset(State) - {State.PARKED}, frozenset({GONE}), Action.COMPLETED),
    Move.RETRY: (frozenset({State.LEASED}), frozenset({State.READY, State.WAITING}), Action.FAILED),
    Move.BURY: (frozenset(State) - {State.PARKED}, frozenset({GONE, State.PARKED}), Action.DEAD),
    Move.RELEASE: (frozenset({State.LEASED}), frozenset({State.READY, State.WAITING}), Action.RELEASED),
    Move.ABANDON: (frozenset({State.LEASED}), frozenset({State.READY}), Action.ABANDONED),
    Move.EXTEND: (frozenset({State.LEASED}), frozenset({State.LEASED}), None),
    Move.RESET: (frozenset({State.LEASED}), frozenset({State.READY}), Action.RESET),
    Move.PROMOTE: (frozenset({State.WAITING}), frozenset({State.READY}), None),
    Move.ADVANCE: (frozenset({State.BEHIND}), frozenset({State.READY, State.WAITING}), None),
    Move.REVIVE: (frozenset({State.PARKED}), frozenset({State.READY, State.BEHIND}), Action.RETRIED),
}

_PUBLIC: Final = {
    State.READY: Status.PENDING,
    State.LEASED: Status.PROCESSING,
    State.BEHIND: Status.PENDING,
    State.WAITING: Status.PENDING,
    State.PARKED: Status.FAILED,
}


def public_status(state: State) -> Status:
    """What the outside calls this state."""
    return _PUBLIC[state]


def event_status(*, open_states: frozenset[State], dead: frozenset[Status], completed: bool) -> Status:
    """An event's status follows its deliveries.

    ``open_states`` are those of its unsettled deliveries, ``dead`` the statuses of its dead letters, and
    ``completed`` says whether any delivery of it has completed.
    """
    working = open_states - {State.PARKED}
    if State.LEASED in working:
        return Status.PROCESSING
    if working:
        return Status.PENDING
    if not dead:
        return Status.COMPLETED
    if completed or Status.COMPLETED_WITH_ERRORS in dead:
        return Status.COMPLETED_WITH_ERRORS
    return Status.FAILED


class Complete(msgspec.Struct, frozen=True, tag=True):
    """The attempt did its work."""

    execution_ms: int | None = None
    status_code: int | None = None


class Retry(msgspec.Struct, frozen=True, tag=True):
    """The attempt failed and counts; try again after ``delay``."""

    error: str
    delay: timedelta = timedelta(0)
    execution_ms: int | None = None
    status_code: int | None = None


class Bury(msgspec.Struct, frozen=True, tag=True):
    """Give up: keep a dead letter. ``error`` is None when the last failure is recorded already."""

    error: str | None
    reason: str = Reason.EXHAUSTED
    status: Status = Status.FAILED
    execution_ms: int | None = None
    status_code: int | None = None


class Release(msgspec.Struct, frozen=True, tag=True):
    """Give the claim back: neither success nor failure, and no attempt is charged."""

    delay: timedelta = timedelta(0)


Outcome = Complete | Retry | Bury | Release
