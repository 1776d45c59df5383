"""The checker itself: it accepts an honest story and catches every lie that is planted in one."""

import copy
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest

from eventhub.core.events import Action, LogEntry, Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.queue import EventQueue
from eventhub.store.values import Report
from eventhub.testing.torture.history import Facts, History, Record, read_all
from eventhub.testing.torture.recording import recorded
from eventhub.testing.torture.roles.publisher import Plan, attempt, into_queue
from eventhub.testing.torture.roles.worker import Arguments, Worker
from tests.crash.checker import PROMISES, Snapshot, Story, check

LEASE = timedelta(seconds=60)


class Evidence(msgspec.Struct):
    records: list[Record]
    snapshot: Snapshot

    def violated(self) -> set[str]:
        return {violation.partition(":")[0] for violation in check(Story(self.records, self.snapshot))}

    def log(self, event_id: int, action: Action) -> LogEntry:
        return next(entry for entry in self.snapshot.logs[event_id] if entry.action is action)

    def rewrite(self, entry: LogEntry, **facts: object) -> None:
        log = self.snapshot.logs[entry.event_id]
        log[log.index(entry)] = msgspec.structs.replace(entry, **facts)

    def forget(self, event_id: int) -> None:
        del self.snapshot.events[event_id], self.snapshot.logs[event_id]

    def restate(self, event_id: int, **facts: object) -> None:
        event = self.snapshot.events[event_id]
        self.snapshot.events[event_id] = msgspec.structs.replace(event, **facts)

    def retell(self, op: str, event_id: int, **facts: object) -> Record:
        """Repeat the last answer about an event, changed, as a record of its own."""
        last = [record for record in self.records if (record.op, record.id) == (op, event_id)][-1]
        told = msgspec.structs.replace(last, **facts)
        self.records.append(told)
        return told


def _event(token: str, key: str | None = None, *, keyed: bool = True) -> Facts:
    event: Facts = {"type": "crash.test", "payload": {"token": token}}
    return event | ({"ordering_key": key} if key else {}) | ({"idempotency_key": token} if keyed else {})


async def _play(directory: Path) -> Evidence:
    """Events 1 and 2 share a key, and 2 needs a second attempt; 3, 4 and 5 are one call, and 5 dies."""
    outcomes: dict[tuple[int, int], Outcome] = {(2, 1): Retry("not now"), (5, 1): Bury("never")}
    worker_history, publisher_history = History(directory, "worker-a.1"), History(directory, "publisher-a.1")
    with worker_history, publisher_history:
        async with recorded(f"sqlite:///{directory / 'hub.db'}", worker_history) as store:
            queue = EventQueue(store, queue="crash", max_attempts=3)
            batch = [_event(f"p-3-{place}", keyed=False) for place in range(3)]
            for plan in (
                Plan(1, [_event("p-1-0", "key")], 3, keyed=True),
                Plan(2, [_event("p-2-0", "key")], 3, keyed=True),
                Plan(3, batch, 3, keyed=False),
            ):
                await attempt(partial(into_queue, queue), plan, "p", publisher_history)
            settings = Arguments(process="worker-a.1", directory="", url="", seed=1, style="bare", hold=0)
            worker = Worker(settings, worker_history)
            while claims := await store.claim("crash", worker="worker-a.1", lease=LEASE):
                for claim in claims:
                    outcome = outcomes.get((claim.held.id, claim.event.attempts), Complete())
                    if isinstance(outcome, Complete):
                        await worker.handle(claim.event, claim.held.fence)
                    await store.settle([Report(claim.held, outcome)])
            return Evidence(read_all(directory), await Snapshot.take(store))


@pytest.fixture
async def evidence(tmp_path: Path) -> Evidence:
    return await _play(tmp_path)


def test_an_honest_story_breaks_no_promise(evidence: Evidence) -> None:
    assert check(Story(evidence.records, evidence.snapshot)) == []
    assert [str(event.status) for _, event in sorted(evidence.snapshot.events.items())] == [
        *["COMPLETED"] * 4,
        "FAILED",
    ]


def an_acknowledged_event_is_gone(evidence: Evidence) -> None:
    evidence.forget(1)


def an_acknowledged_event_hangs(evidence: Evidence) -> None:
    evidence.restate(1, status=Status.PROCESSING)


def a_dead_letter_is_missing(evidence: Evidence) -> None:
    evidence.snapshot.dead.clear()


def a_dead_letter_has_no_errors(evidence: Evidence) -> None:
    evidence.snapshot.dead[5] = msgspec.structs.replace(evidence.snapshot.dead[5], errors=[])


def an_event_was_changed(evidence: Evidence) -> None:
    evidence.restate(1, payload={"token": "p-1-0", "more": 1})


def an_event_came_from_nowhere(evidence: Evidence) -> None:
    evidence.restate(1, payload={"token": "q-1-0"})


def part_of_a_call_is_missing(evidence: Evidence) -> None:
    evidence.records = [r for r in evidence.records if not (r.op == "publish" and r.kind == "ok" and r.batch == "p-3")]
    evidence.forget(4)


def a_key_made_two_events(evidence: Evidence) -> None:
    evidence.snapshot.events[9] = msgspec.structs.replace(evidence.snapshot.events[1], id=9)
    evidence.snapshot.logs[9] = copy.copy(evidence.snapshot.logs[1])


def an_event_completed_twice(evidence: Evidence) -> None:
    evidence.snapshot.logs[1].append(evidence.log(1, Action.COMPLETED))


def an_attempt_is_beyond_the_limit(evidence: Evidence) -> None:
    for record in evidence.records:
        record.limit = 1 if record.limit else None


def an_attempt_was_not_counted(evidence: Evidence) -> None:
    evidence.restate(2, attempts=1)


def the_sweep_took_the_successor_s_claim(evidence: Evidence) -> None:
    evidence.rewrite(evidence.log(2, Action.FAILED), action=Action.ABANDONED, fence=2)


def a_zombie_s_report_was_accepted(evidence: Evidence) -> None:
    later = evidence.records[-1].time + 1
    for kind in ("invoke", "ok"):
        evidence.retell("report", 2, kind=kind, call=999, fence=1, outcome="Retry", time=later, accepted=True)


def a_claim_was_reported_twice(evidence: Evidence) -> None:
    for kind in ("invoke", "ok"):
        evidence.retell("report", 1, kind=kind, call=999)


def an_accepted_report_left_no_trace(evidence: Evidence) -> None:
    evidence.rewrite(evidence.log(2, Action.FAILED), action=Action.ABANDONED)


def an_end_was_reported_by_nobody(evidence: Evidence) -> None:
    evidence.records = [r for r in evidence.records if (r.op, r.id) != ("report", 1)]


def a_claim_was_taken_within_its_lease(evidence: Evidence) -> None:
    evidence.rewrite(evidence.log(2, Action.FAILED), action=Action.ABANDONED)


def good_work_was_called_a_failure(evidence: Evidence) -> None:
    evidence.rewrite(evidence.log(1, Action.COMPLETED), action=Action.FAILED)


def two_of_a_key_were_in_flight(evidence: Evidence) -> None:
    second = evidence.log(2, Action.PICKED)
    first = evidence.log(1, Action.COMPLETED)
    evidence.rewrite(second, id=first.id)
    evidence.rewrite(first, id=second.id)


def a_key_was_overtaken(evidence: Evidence) -> None:
    """All of event 2 is moved before all of event 1."""
    evidence.snapshot.logs[2] = [msgspec.structs.replace(e, id=e.id - 1000) for e in evidence.snapshot.logs[2]]


LIES: list[tuple[Callable[[Evidence], None], str]] = [
    (an_acknowledged_event_is_gone, "acknowledged_events_are_settled"),
    (an_acknowledged_event_hangs, "acknowledged_events_are_settled"),
    (a_dead_letter_is_missing, "dead_letters_are_complete"),
    (a_dead_letter_has_no_errors, "dead_letters_are_complete"),
    (an_event_was_changed, "nothing_is_invented"),
    (an_event_came_from_nowhere, "nothing_is_invented"),
    (part_of_a_call_is_missing, "calls_are_whole_or_absent"),
    (a_key_made_two_events, "a_publication_is_one_event"),
    (an_event_completed_twice, "the_log_folds_to_the_state"),
    (an_attempt_is_beyond_the_limit, "the_log_folds_to_the_state"),
    (an_attempt_was_not_counted, "the_log_folds_to_the_state"),
    (the_sweep_took_the_successor_s_claim, "the_log_folds_to_the_state"),
    (a_zombie_s_report_was_accepted, "reports_carry_the_current_fence"),
    (a_claim_was_reported_twice, "reports_carry_the_current_fence"),
    (an_accepted_report_left_no_trace, "reports_carry_the_current_fence"),
    (an_end_was_reported_by_nobody, "what_is_logged_was_reported"),
    (a_claim_was_taken_within_its_lease, "leases_are_respected"),
    (good_work_was_called_a_failure, "lost_work_was_abandoned"),
    (two_of_a_key_were_in_flight, "keys_have_one_in_flight"),
    (a_key_was_overtaken, "keys_go_in_order"),
]


@pytest.mark.parametrize(("lie", "promise"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_every_planted_lie_is_caught(evidence: Evidence, lie: Callable[[Evidence], None], promise: str) -> None:
    lie(evidence)
    assert promise in evidence.violated()


def test_every_promise_has_a_lie() -> None:
    assert {promise for _, promise in LIES} == {promise.__name__ for promise in PROMISES}
