"""Which claims this process has handed out: a report on one of them needs no look-up, the store's guard decides."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from eventhub.queue.work.values import WorkReport
from eventhub.store.claims import Claim, Held

__all__ = ["HandedOut", "HandedOutClaims"]

REMEMBERED: Final = 65_536
"""Claims that are never reported are forgotten from the oldest on; the database still knows them."""


class HandedOut(msgspec.Struct, frozen=True):
    """A claim: its proof, whose it is, and how often the event had failed before."""

    held: Held
    worker: str
    failures: int
    claimed_by: str | None = None


class HandedOutClaims:
    """The latest claim of each event, as far as this process has made it."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._claims: OrderedDict[int, HandedOut] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._claims)

    def remember(self, claim: Claim, worker: str, claimed_by: str | None = None) -> None:
        self._claims.pop(claim.held.id, None)
        self._claims[claim.held.id] = HandedOut(claim.held, worker, claim.event.retry_count, claimed_by)
        if len(self._claims) > self._limit:
            self._claims.popitem(last=False)

    def find(self, report: WorkReport) -> HandedOut | None:
        """The worker's claim; None when the one that is remembered is another's, or another than is meant."""
        claim = self._claims.get(report.event_id)
        if claim is None or claim.worker != report.worker or report.fence not in (None, claim.held.fence):
            return None
        return claim if claim.claimed_by in (None, report.claimed_by) else None

    def forget(self, held: Held) -> None:
        """The claim was reported, or is lost; a newer claim of the same event stays."""
        claim = self._claims.get(held.id)
        if claim is not None and claim.held.fence == held.fence:
            del self._claims[held.id]
