"""Mistakes that a store, a rule or a process could make, one patch each, and the promise that each of them breaks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Retry, State, event_status
from eventhub.core.matching import Pattern
from eventhub.core.ordering import ordering_key_of
from eventhub.core.retry import RetryPolicy
from eventhub.core.verdicts import Verdict, judge
from eventhub.store.delivering import Layout, chosen
from eventhub.store.idempotency import Keys
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.model import Model, Row

Patch = Callable[[pytest.MonkeyPatch], None]
SECOND = timedelta(seconds=1)


def _report_without_fence(patch: pytest.MonkeyPatch) -> None:
    honest = Model.report

    def report(self: Model, number: int, fence: int, outcome: Any, *, leased: bool, now: datetime) -> bool:
        return honest(self, number, self.rows[number].fence, outcome, leased=leased, now=now)

    patch.setattr(Model, "report", report)


def _lease_ends_at_its_limit(patch: pytest.MonkeyPatch) -> None:
    honest = Model.tend
    patch.setattr(Model, "tend", lambda self, now: honest(self, now + timedelta(microseconds=1)))


def _abandoned_without_end(patch: pytest.MonkeyPatch) -> None:
    honest = Model.abandon

    def abandon(self: Model, row: Row, now: datetime) -> None:
        row.max_attempts = None
        honest(self, row, now)

    patch.setattr(Model, "abandon", abandon)


def _retry_lets_others_pass(patch: pytest.MonkeyPatch) -> None:
    honest = Model._again

    def again(self: Model, row: Row, outcome: Any, now: datetime) -> None:
        honest(self, row, outcome, now)
        behind = [each for each in self._lane(row.key, row.consumer) if each.state is State.BEHIND]
        for following in behind[:1]:
            self._advance(following, now)

    patch.setattr(Model, "_again", again)


def _nobody_steps_forward(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "_advance", lambda self, row, now: None)


def _heads_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "head", lambda self, key, consumer="work": None)


def _extending_may_shorten(patch: pytest.MonkeyPatch) -> None:
    honest = Model.extend

    def extend(self: Model, number: int, fence: int, lease: timedelta, now: datetime) -> bool:
        kept = honest(self, number, fence, lease, now)
        if kept:
            self.rows[number].due = now + lease / 2
        return kept

    patch.setattr(Model, "extend", extend)


def _giving_back_is_charged(patch: pytest.MonkeyPatch) -> None:
    honest = Model._again

    def again(self: Model, row: Row, outcome: Any, now: datetime) -> None:
        attempts = row.attempts
        honest(self, row, outcome, now)
        row.attempts = attempts

    patch.setattr(Model, "_again", again)


def _dead_without_a_letter(patch: pytest.MonkeyPatch) -> None:
    honest = Model._bury

    def bury(self: Model, row: Row, outcome: Bury, now: datetime, action: str) -> None:
        honest(self, row, outcome, now, action)
        row.letter = None

    patch.setattr(Model, "_bury", bury)


def _letter_without_errors(patch: pytest.MonkeyPatch) -> None:
    honest = Model._bury

    def bury(self: Model, row: Row, outcome: Bury, now: datetime, action: str) -> None:
        honest(self, row, outcome, now, action)
        if row.letter is not None:
            row.letter.errors = []

    patch.setattr(Model, "_bury", bury)


def _all_are_taken_back(patch: pytest.MonkeyPatch) -> None:
    def take_back(self: Model, worker: str, now: datetime) -> None:
        for row in self.open():
            if row.state is State.LEASED:
                self.abandon(row, now)

    patch.setattr(Model, "take_back", take_back)


def _fence_begins_anew(patch: pytest.MonkeyPatch) -> None:
    honest = Model.retry_dead

    def retry_dead(self: Model, number: int, now: datetime) -> bool:
        revived = honest(self, number, now)
        if revived:
            self.rows[number].fence = 0
        return revived

    patch.setattr(Model, "retry_dead", retry_dead)


def _ready_before_it_is_due(patch: pytest.MonkeyPatch) -> None:
    honest = Model.tend

    def tend(self: Model, now: datetime) -> None:
        for row in self.open():
            if row.state is State.WAITING and row.due is not None:
                row.due = min(row.due, max(row.due - SECOND, now))
        honest(self, now)

    patch.setattr(Model, "tend", tend)


def _youngest_first(patch: pytest.MonkeyPatch) -> None:
    honest = Model.ready
    patch.setattr(Model, "ready", lambda self, consumer: honest(self, consumer)[::-1])


def _completion_is_not_logged(patch: pytest.MonkeyPatch) -> None:
    honest = Model.report

    def report(self: Model, number: int, fence: int, outcome: Any, *, leased: bool, now: datetime) -> bool:
        accepted = honest(self, number, fence, outcome, leased=leased, now=now)
        if accepted and isinstance(outcome, Complete):
            self.rows[number].log.pop()
        return accepted

    patch.setattr(Model, "report", report)


def _keys_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = Keys.judge
    patch.setattr(Keys, "judge", lambda self, earlier: honest(self, {}))


def _last_of_a_batch_is_lost(patch: pytest.MonkeyPatch) -> None:
    honest = Memory._store

    def store(self: Memory, number: int, event: Any, now: datetime) -> Any:
        published = honest(self, number, event, now)
        if number % 7 == 0:
            del self.events[number]
        return published

    patch.setattr(Memory, "_store", store)


def _markers_stay(patch: pytest.MonkeyPatch) -> None:
    honest = Memory._fan_out

    def fan_out(self: Memory, call: Any, now: datetime) -> int:
        kept = self.markers[:1]
        made = honest(self, call, now)
        self.markers[:0] = kept
        return made

    patch.setattr(Memory, "_fan_out", fan_out)


def _markers_go_too_early(patch: pytest.MonkeyPatch) -> None:
    def careless(markers: Any, plan: Any) -> Any:
        handed, placements, more = chosen(markers, plan)
        return handed, placements[: len(placements) - len(handed) // 3], more

    patch.setattr("eventhub.testing.simulation.memory.chosen", careless)


def _one_batch_has_many_heads(patch: pytest.MonkeyPatch) -> None:
    class Careless(Layout):
        def __init__(self, placements: Any, heads: set[int]) -> None:
            super().__init__(placements, heads)
            self.states = [State.READY for _ in self.states]

    patch.setattr("eventhub.testing.simulation.memory.Layout", Careless)


def _one_try_too_many(patch: pytest.MonkeyPatch) -> None:
    honest = RetryPolicy.after_failure

    def after_failure(self: RetryPolicy, attempts: int, error: str, *, roll: float = 0.0) -> Retry | Bury:
        if attempts == self.max_attempts:
            return Retry(error, timedelta(seconds=self.delay(attempts + 1, roll=roll)))
        return honest(self, attempts, error, roll=roll)

    patch.setattr(RetryPolicy, "after_failure", after_failure)


def _waits_do_not_grow(patch: pytest.MonkeyPatch) -> None:
    honest = RetryPolicy.delay
    patch.setattr(RetryPolicy, "delay", lambda self, attempt, *, roll=0.0: honest(self, min(attempt, 2), roll=roll))


def _errors_count_as_delivered(patch: pytest.MonkeyPatch) -> None:
    def mild(answer: Any, *args: Any, **named: Any) -> Verdict:
        better = msgspec.structs.replace(answer, status=200) if answer.status == 503 else answer
        return judge(better, *args, **named)

    patch.setattr("eventhub.testing.simulation.roles.judge", mild)


def _a_star_takes_several_segments(patch: pytest.MonkeyPatch) -> None:
    honest = Pattern.matches
    patch.setattr(Pattern, "matches", lambda self, kind: honest(self, kind) or self.text == "*.*")


def _keys_in_payloads_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    def blind(path: str | None, *rest: Any) -> str | None:
        return None if path == "payload.key" else ordering_key_of(path, *rest)

    patch.setattr("eventhub.hub.directory.ordering_key_of", blind)


def _dead_events_stay_pending(patch: pytest.MonkeyPatch) -> None:
    def hanging(**given: Any) -> Status:
        status = event_status(**given)
        return Status.PROCESSING if status is Status.FAILED else status

    patch.setattr("eventhub.testing.simulation.memory.event_status", hanging)


MUTATIONS: dict[Patch, set[int]] = {
    _report_without_fence: {6},
    _lease_ends_at_its_limit: {6},
    _abandoned_without_end: {4, 5, 6},
    _retry_lets_others_pass: {3},
    _nobody_steps_forward: {11},
    _heads_are_not_looked_for: {3},
    _extending_may_shorten: {6},
    _giving_back_is_charged: {4},
    _dead_without_a_letter: {1},
    _letter_without_errors: {8},
    _all_are_taken_back: {6},
    _fence_begins_anew: {6},
    _ready_before_it_is_due: {13},
    _youngest_first: {3},
    _completion_is_not_logged: {7},
    _keys_are_forgotten: {9},
    _last_of_a_batch_is_lost: {1, 9},
    _markers_stay: {9, 11},
    _markers_go_too_early: {1},
    _one_batch_has_many_heads: {3},
    _one_try_too_many: {4},
    _waits_do_not_grow: {13},
    _errors_count_as_delivered: {1},
    _a_star_takes_several_segments: {2},
    _keys_in_payloads_are_not_seen: {3},
    _dead_events_stay_pending: {1},
}
"""Each with the invariants of which one must be the first to break."""
