"""A store in memory that answers calls: the model of deliveries, and the real rules for keys and the fan-out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from eventhub.core.events import Status
from eventhub.core.lifecycle import State, event_status
from eventhub.store.claims import Held
from eventhub.store.delivering import FIRST_SHARE, Layout, chosen
from eventhub.store.idempotency import Keys, Scope
from eventhub.store.messages import Marker, Plan, consumer_of
from eventhub.store.values import NewEvent, Published, lane_id
from eventhub.testing.simulation.calls import (
    Call,
    Claim,
    ClaimMessages,
    Extend,
    FanOut,
    Grant,
    Publish,
    Refused,
    Reply,
    Reset,
    RetryDead,
    Settle,
    TakeBack,
    Tend,
    Unpark,
)
from eventhub.testing.simulation.model import Model, Row
from eventhub.testing.simulation.steps import Step

__all__ = ["Memory", "Stored"]


class Stored(msgspec.Struct):
    """An event as it is kept; ``due`` is when its messages may be sent."""

    new: NewEvent
    created_at: datetime
    due: datetime | None


class Memory:
    """Numbers are given as SQLite gives them, so that both can be compared; the first ones belong to subscribers."""

    def __init__(self, plan: Plan, first: int) -> None:
        self.model = Model()
        self.events: dict[int, Stored] = {}
        self.markers: list[int] = []
        self.step: Step | None = None
        """How far the last sweep found the clock set back."""
        self._plan = plan
        self._next = first
        self._keys: dict[Scope, tuple[Published, bytes]] = {}
        self._answers: dict[type, Callable[[Any, datetime], Reply]] = {
            Publish: self._publish,
            Claim: self._claim,
            ClaimMessages: self._claim_messages,
            FanOut: self._fan_out,
            Settle: self._settle,
            Extend: self._extend,
            Tend: self._tend,
            TakeBack: self._take_back,
            Reset: lambda call, now: self.model.reset(call.delivery, now),
            RetryDead: lambda call, now: self.model.retry_dead(call.delivery, now),
            Unpark: lambda call, now: self.model.unpark(call.key, now, call.consumer),
        }

    def answer(self, call: Call, now: datetime) -> Reply:
        """Do what is asked, at this time of the store's clock."""
        return self._answers[type(call)](call, now)

    def status(self, event: int) -> Status:
        """What the outside sees of an event."""
        rows = [row for row in self.model.rows.values() if row.event == event]
        waiting = {State.READY} if event in self.markers else set()
        return event_status(
            open_states=frozenset({row.state for row in rows if row.state is not None} | waiting),
            dead=frozenset(row.letter.status for row in rows if row.letter is not None),
            completed=any(row.state is None and row.letter is None for row in rows),
        )

    # --------------------------------------------------------------- publish

    def _take(self, count: int) -> range:
        numbers = range(self._next, self._next + count)
        self._next += count
        return numbers

    def _publish(self, call: Publish, now: datetime) -> list[Published] | Refused:
        numbers = self._take(len(call.events))
        keys = Keys([call.events], numbers)
        taken = {scope for scope in keys.first if scope not in self._keys}
        keys.judge({scope: self._keys[scope] for scope in keys.first if scope not in taken})
        new = keys.to_store()
        stored = {number: self._store(number, event, now) for number, event in new}
        (answer,) = keys.answers(stored)
        if isinstance(answer, Exception):
            return Refused()
        dropped, moved = set(keys.dropped(taken)), keys.moved(taken)
        owners = {scope: keys.first[scope] for scope in taken if scope not in dropped} | moved
        for scope, number in owners.items():
            self._keys[scope] = (Published(number, now, duplicate=True), keys.asked[number])
        return list(answer)

    def _store(self, number: int, event: NewEvent, now: datetime) -> Published:
        due = now + event.delay if event.delay else None
        self.events[number] = Stored(event, now, due)
        if event.work:
            state = State.READY if due is None else State.WAITING
            row = Row(number, event.ordering_key, now, state, due, event.max_attempts, event.park_when_dead)
            row.event = number
            self.model.publish(row, now)
        if event.broadcast:
            self.markers.append(number)
        return Published(number, now)

    # --------------------------------------------------------------- fan out

    def _fan_out(self, call: FanOut, now: datetime) -> int:
        handed, placements, _ = chosen([self._marker(number) for number in self.markers[: call.limit]], self._plan)
        heads = {
            lane_id(row.consumer, row.key)
            for row in self.model.rows.values()
            if row.key is not None and row.state is not None and row.state is not State.BEHIND
        }
        layout = Layout(placements, heads)
        for number, placed, state in zip(self._take(len(placements)), placements, layout.states, strict=True):
            event = self.events[placed.event_id]
            due = event.due if event.due is not None and event.due > now else None
            begins = State.WAITING if due is not None and state == State.READY else State(state)
            row = Row(number, placed.key, event.created_at, begins, due, placed.max_attempts, placed.parks)
            row.consumer, row.event = consumer_of(placed.subscriber), placed.event_id
            self.model.rows[number] = row
        del self.markers[: len(handed)]
        return len(placements)

    def _marker(self, number: int) -> Marker:
        event = self.events[number].new
        payload = event.payload if self._plan.needs_payload else None
        return Marker(number, event.type, event.ordering_key, event.metadata, payload, event.targets, not event.work)

    # ----------------------------------------------------------------- claim

    def _claim(self, call: Claim, now: datetime) -> list[Grant]:
        self._follow_clock(now)
        return self._grants(self.model.claim(call.limit, call.worker, call.lease, call.max_attempts, now))

    def _claim_messages(self, call: ClaimMessages, now: datetime) -> list[Grant]:
        """First attempts and retries merged, as a store does it."""
        ready = self.model.ready(consumer_of(call.subscriber))
        fresh = [row for row in ready if not row.failed_before][: call.most]
        again = [row for row in ready if row.failed_before][: call.most]
        turns = [(float(turn), row) for turn, row in enumerate(fresh, start=1)]
        turns += [((turn - call.roll) * FIRST_SHARE, row) for turn, row in enumerate(again, start=1)]
        rows = [row for _, row in sorted(turns, key=lambda pair: pair[0])[: call.most]]
        self.model.lease(rows, call.worker, call.lease, None, now)
        return self._grants(rows)

    def _grants(self, rows: list[Row]) -> list[Grant]:
        return [
            Grant(
                Held(row.id, row.fence, None if row.key is None else lane_id(row.consumer, row.key)),
                row.event,
                self.events[row.event].new.payload,
                row.attempts,
                row.failures,
                row.max_attempts,
            )
            for row in rows
        ]

    # ---------------------------------------------------------------- settle

    def _settle(self, call: Settle, now: datetime) -> list[bool]:
        return [
            self.model.report(each.held.id, each.held.fence, each.outcome, leased=each.leased, now=now)
            for each in call.reports
        ]

    def _extend(self, call: Extend, now: datetime) -> bool:
        return self.model.extend(call.held.id, call.held.fence, call.lease, now)

    def _tend(self, _: Tend, now: datetime) -> None:
        self._follow_clock(now)
        self.model.tend(now)

    def _follow_clock(self, now: datetime) -> None:
        self.step = self.model.follow_clock(now, to_hand_out=bool(self.markers))
        if self.step:
            for number in self.markers:
                self.events[number].due = self.step.moved(self.events[number].due)

    def _take_back(self, call: TakeBack, now: datetime) -> None:
        self.model.take_back(call.worker, now)

    @property
    def drained(self) -> bool:
        """Whether nothing is left to do but what an operator must decide."""
        return not self.markers and all(row.state in (None, State.PARKED) for row in self.model.rows.values())
