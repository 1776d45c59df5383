"""How a report finds its claim: the one remembered from a poll, the one a fence names, or none at all.

remembered from a poll, or ours by worker name ─▶ settle ─┬─▶ accepted
a fence is given ─▶ it must be the current one ─▶ settle ─┼─▶ settled before: the first verdict stands
nobody holds it ─▶ only a finalize may end it  ─▶ settle ─┴─▶ somebody else's now: ClaimLost
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from eventhub.core.events import Event
from eventhub.core.lifecycle import Bury, Outcome, State
from eventhub.errors import ClaimLost, EventHubError, EventNotFound
from eventhub.queue.claims import ClaimMemory, MyClaim, claim_lost
from eventhub.queue.verdicts import after_failure, join_errors
from eventhub.store.claims import Held
from eventhub.store.values import Current, Report

if TYPE_CHECKING:
    from eventhub.queue.event_queue import EventQueue

__all__ = ["Reporter"]


class Reporter:
    """Settles events for one queue object."""

    def __init__(self, queue: EventQueue, claims: ClaimMemory) -> None:
        self._queue = queue
        self._store = queue.store
        self._claims = claims

    async def settle(self, subject: int | Event, outcome: Outcome, *, fence: int | None) -> None:
        """End an event; quiet when it is settled already."""
        while True:
            claim = self._remembered(subject, fence)
            leased = True
            if claim is None:
                found = await self._look_up(subject, fence)
                if found is None:
                    return
                claim, leased = found
            (settled,) = await self._store.settle([Report(claim.held, outcome, leased)], now=self._now(claim))
            if settled.accepted or settled.current is None or settled.current.state is State.PARKED:
                self._claims.forget(claim.held)
                return
            if leased:  # remembered still: the same report again is refused again
                raise self._lost(claim, settled.current)
            # Nobody held it when we looked, and now it has moved on: look again.

    async def settle_many(self, subjects: Sequence[int | Event], outcome: Outcome) -> None:
        """End many events; one write for those whose claim is remembered."""
        claims = {_id(subject): self._remembered(subject, None) for subject in subjects}
        mine = [claim for claim in claims.values() if claim is not None]
        by_clock: dict[datetime | None, list[MyClaim]] = {}
        for claim in mine:
            by_clock.setdefault(self._now(claim), []).append(claim)
        problems: list[EventHubError] = []
        for now, group in by_clock.items():
            settled = await self._store.settle([Report(claim.held, outcome) for claim in group], now=now)
            for claim, answer in zip(group, settled, strict=True):
                if answer.accepted or answer.current is None or answer.current.state is State.PARKED:
                    self._claims.forget(claim.held)
                else:
                    problems.append(self._lost(claim, answer.current))
        for subject in subjects:
            if claims[_id(subject)] is None:
                try:
                    await self.settle(subject, outcome, fence=None)
                except (ClaimLost, EventNotFound) as error:
                    problems.append(error)
        if problems:
            raise (problems[0] if len(problems) == 1 else type(problems[0])("\n".join(str(p) for p in problems)))

    async def fail(self, subject: int | Event, error: object, *, delay: timedelta, fence: int | None) -> bool:
        """A failed attempt; True when there will be another."""
        claim = await self._own(subject, fence)
        limit = claim.max_attempts if claim.max_attempts is not None else self._queue.max_attempts
        text = join_errors([error])
        outcome = after_failure(text, attempts=claim.attempts or 0, max_attempts=limit, delay=delay)
        await self._settle_own(claim, outcome)
        return not isinstance(outcome, Bury)

    async def give_back(self, subject: int | Event, outcome: Outcome, *, fence: int | None) -> None:
        await self._settle_own(await self._own(subject, fence), outcome)

    async def extend(self, subject: int | Event, lease: timedelta, *, fence: int | None) -> None:
        claim = await self._own(subject, fence)
        if await self._store.extend([claim.held], lease, now=self._now(claim)):
            raise await self._why_lost(claim)

    # ------------------------------------------------------------- the claim

    def _remembered(self, subject: int | Event, fence: int | None) -> MyClaim | None:
        """The claim of our own poll, if it is the one that is meant."""
        claim = self._claims.get(_id(subject))
        meant = _fence(subject, fence)
        return claim if claim is not None and meant in (None, claim.held.fence) else None

    async def _look_up(self, subject: int | Event, fence: int | None) -> tuple[MyClaim, bool] | None:
        """The claim as the database knows it, and whether it is leased; None when the event is settled."""
        event_id, meant = _id(subject), _fence(subject, fence)
        await self._must_exist(event_id)
        current = (await self._store.current([event_id])).get(event_id)
        if current is None or current.state is State.PARKED:
            return None
        leased = current.state is State.LEASED
        ours = leased and (current.worker == self._queue.worker if meant is None else current.fence == meant)
        if ours or (meant is None and not leased):
            held = Held(current.id, current.fence, current.lane)
            return MyClaim(held, current.attempts, current.max_attempts), leased
        attempt = subject.attempts if meant is not None and isinstance(subject, Event) else None
        raise claim_lost(event_id, attempt, current, self._queue.abandoned_after)

    async def _own(self, subject: int | Event, fence: int | None) -> MyClaim:
        """A claim that we hold: what fails, is released or is extended must be ours."""
        claim = self._remembered(subject, fence)
        if claim is not None:
            return claim
        found = await self._look_up(subject, fence)
        if found is not None and found[1]:
            return found[0]
        state = "is settled already" if found is None else "is not claimed"
        raise ClaimLost(f"Delivery {_id(subject)} {state}, so there is no claim to report on; poll it first.")

    async def _settle_own(self, claim: MyClaim, outcome: Outcome) -> None:
        (settled,) = await self._store.settle([Report(claim.held, outcome)], now=self._now(claim))
        if not settled.accepted:  # remembered still, as in settle
            raise await self._why_lost(claim)
        self._claims.forget(claim.held)

    async def _why_lost(self, claim: MyClaim) -> ClaimLost:
        event_id = claim.held.id
        current = (await self._store.current([event_id])).get(event_id)
        if current is None:
            return ClaimLost(f"Delivery {event_id}, attempt {claim.attempts}: it is settled already; nothing changed.")
        return self._lost(claim, current)

    def _lost(self, claim: MyClaim, current: Current) -> ClaimLost:
        return claim_lost(claim.held.id, claim.attempts, current, self._queue.abandoned_after)

    async def _must_exist(self, event_id: int) -> None:
        event = await self._store.event(event_id)
        if event is None or event.queue != self._queue.name:
            raise EventNotFound(f"Event with id {event_id} not found")

    def _now(self, claim: MyClaim) -> datetime | None:
        """The clock that the claim was made by: never two clocks for one claim."""
        return self._queue.now() if claim.clock is None else claim.clock.now()


def _id(subject: int | Event) -> int:
    event_id: Any = subject.id if isinstance(subject, Event) else subject
    if not isinstance(event_id, int) or isinstance(event_id, bool) or not 0 <= event_id < 2**63:
        raise EventNotFound(f"Event with id {event_id} not found")
    return event_id


def _fence(subject: int | Event, fence: int | None) -> int | None:
    """The fence that is meant: given, or that of a polled event; one that was only published has none."""
    if fence is not None:
        return fence
    return getattr(subject, "fence", None) or None
