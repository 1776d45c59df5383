"""Which claims this queue object holds, and what to say when one of them is no longer current."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Final

import msgspec

from eventhub.clock import Clock
from eventhub.core.lifecycle import State
from eventhub.errors import ClaimLost
from eventhub.store.claims import Claim, Held
from eventhub.store.values import Current

__all__ = ["ClaimMemory", "MyClaim", "claim_lost"]

REMEMBERED: Final = 65_536
"""Claims polled but never reported are forgotten from the oldest on; the database still knows them."""


class MyClaim(msgspec.Struct, frozen=True):
    """A claim of ours: the proof, the attempt it is, and the clock it was made by."""

    held: Held
    attempts: int | None
    max_attempts: int | None = None
    clock: Clock | None = None


class ClaimMemory:
    """The claims of one queue object's own polls, by event id."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._claims: OrderedDict[int, MyClaim] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._claims)

    def remember(self, claim: Claim, clock: Clock | None) -> None:
        self._claims.pop(claim.held.id, None)
        self._claims[claim.held.id] = MyClaim(claim.held, claim.event.attempts, claim.max_attempts, clock)
        if len(self._claims) > self._limit:
            self._claims.popitem(last=False)

    def get(self, event_id: int) -> MyClaim | None:
        return self._claims.get(event_id)

    def forget(self, held: Held) -> None:
        """The claim was reported, or is lost; a newer claim of the same event stays."""
        mine = self._claims.get(held.id)
        if mine is not None and mine.held.fence == held.fence:
            del self._claims[held.id]


def claim_lost(event_id: int, attempt: int | None, current: Current, lease: timedelta) -> ClaimLost:
    """The error for a report that came too late, with who has the delivery now and what to do about it."""
    subject = f"Delivery {event_id}" if attempt is None else f"Delivery {event_id}, attempt {attempt}"
    if current.state is State.LEASED:
        what = f"the lease ended and attempt {current.attempts} is running on {current.worker}"
        if attempt is None or attempt >= current.attempts:
            what = f"attempt {current.attempts} is running on {current.worker} under another claim"
    elif current.state is State.WAITING:
        what = "the claim was reported or given back, and the next attempt waits until it is due"
    else:
        what = "the lease ended, or the claim was given back, and the delivery waits for its next attempt"
    return ClaimLost(
        f"{subject}: {what}. Set abandoned_after ({lease.total_seconds():g}s) above the handler's longest "
        "run, or extend it while it runs."
    )
