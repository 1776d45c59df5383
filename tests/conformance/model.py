"""The store in memory, as the rules say it: no SQL, no batches, no concurrency, only what must come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry, State

LOST = "Abandoned: {} did not report before its lease ended."


@dataclass
class Letter:
    """What the dead letter queue shows."""

    attempts: int
    failures: int
    errors: list[str]
    reason: str
    status: Status
    worker: str | None
    dead_at: datetime


@dataclass
class Row:
    """One event with its delivery; ``state`` is None when it is settled."""

    id: int
    key: str | None
    created_at: datetime
    state: State | None
    due: datetime | None
    max_attempts: int | None
    parks: bool = False
    fence: int = 0
    attempts: int = 0
    failures: int = 0
    worker: str | None = None
    errors: list[str] = field(default_factory=list)
    letter: Letter | None = None
    log: list[tuple[str, datetime]] = field(default_factory=list)


class Model:
    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.closed: list[tuple[int, datetime]] = []

    def open(self) -> list[Row]:
        return [row for _, row in sorted(self.rows.items()) if row.state is not None]

    def head(self, key: str | None) -> Row | None:
        heads = [row for row in self.open() if row.key == key and row.state is not State.BEHIND]
        return heads[0] if key is not None and heads else None

    def publish(self, row: Row, now: datetime) -> None:
        row.log.append(("PUBLISHED", now))
        if self.head(row.key) is not None:
            row.state = State.BEHIND
        if row.state is State.LEASED:
            row.fence = row.attempts = 1
            row.log.append(("PICKED", now))
        self.rows[row.id] = row

    def claim(self, limit: int, worker: str, lease: timedelta, max_attempts: int | None, now: datetime) -> list[Row]:
        self.tend(now)
        taken = [row for row in self.open() if row.state is State.READY][:limit]
        for row in taken:
            row.state, row.due, row.worker = State.LEASED, now + lease, worker
            row.fence, row.attempts = row.fence + 1, row.attempts + 1
            row.max_attempts = row.max_attempts if max_attempts is None else max_attempts
            row.log.append(("PICKED", now))
        return taken

    def tend(self, now: datetime) -> None:
        for row in self.open():
            if row.state is State.WAITING and row.due is not None and row.due <= now:
                row.state, row.due = State.READY, None
        for row in self.open():
            if row.state is State.LEASED and row.due is not None and row.due < now:
                self.abandon(row, now)

    def abandon(self, row: Row, now: datetime) -> None:
        error = LOST.format(row.worker)
        if row.max_attempts is not None and row.attempts >= row.max_attempts:
            self._bury(row, Bury(error, "worker_lost"), now, "ABANDONED")
        else:
            self._failed(row, error, "ABANDONED", now)
            row.state, row.due, row.worker = State.READY, None, None

    def report(self, number: int, fence: int, outcome: Outcome, *, leased: bool, now: datetime) -> bool:
        row = self.rows.get(number)
        if row is None or row.state is None or row.fence != fence or (row.state is State.LEASED) != leased:
            return False
        if not leased and (row.state is State.PARKED or isinstance(outcome, Retry | Release)):
            return False
        if isinstance(outcome, Complete):
            row.log.append(("COMPLETED", now))
            self._leave(row, now)
        elif isinstance(outcome, Bury):
            self._bury(row, outcome, now, "FAILED")
        else:
            if isinstance(outcome, Retry):
                self._failed(row, outcome.error, "FAILED", now)
            else:
                row.attempts -= 1
                row.log.append(("RELEASED", now))
            later = outcome.delay > timedelta(0)
            row.state = State.WAITING if later else State.READY
            row.due, row.worker = now + outcome.delay if later else None, None
        return True

    def extend(self, number: int, fence: int, lease: timedelta, now: datetime) -> bool:
        row = self.rows.get(number)
        if row is None or row.state is not State.LEASED or row.fence != fence:
            return False
        row.due = max(row.due or now, now + lease)
        return True

    def reset(self, number: int, now: datetime) -> bool:
        row = self.rows.get(number)
        if row is None or row.state is not State.LEASED:
            return False
        row.state, row.due, row.worker = State.READY, None, None
        if row.max_attempts is not None and row.max_attempts <= row.attempts:
            row.max_attempts = row.attempts + 1
        row.log.append(("RESET", now))
        return True

    def take_back(self, worker: str, now: datetime) -> None:
        for row in self.open():
            if row.state is State.LEASED and row.worker == worker:
                self.abandon(row, now)

    def retry_dead(self, number: int, now: datetime) -> bool:
        row = self.rows.get(number)
        if row is None or row.letter is None:
            return False
        self.closed.append((number, row.letter.dead_at))
        free = row.state is State.PARKED or self.head(row.key) is None
        row.state, row.due, row.worker = State.READY if free else State.BEHIND, None, None
        row.letter, row.attempts, row.failures, row.errors = None, 0, 0, []
        row.log.append(("RETRIED", now))
        self._step_back(row, now)
        return True

    def _step_back(self, revived: Row, now: datetime) -> None:
        """A head that nobody has taken lets an older one pass."""
        head = self.head(revived.key)
        if head is None or head.state not in (State.READY, State.WAITING):
            return
        behind = [row for row in self.rows.values() if row.key == revived.key and row.state is State.BEHIND]
        first = min(behind, key=lambda row: row.id, default=None)
        if first is not None and first.id < head.id:
            head.state = State.BEHIND
            later = first.due is not None and first.due > now
            first.state, first.due = (State.WAITING, first.due) if later else (State.READY, None)

    def unpark(self, key: str, now: datetime) -> bool:
        head = self.head(key)
        if head is None or head.state is not State.PARKED:
            return False
        head.log.append(("SKIPPED", now))
        self._leave(head, now)
        return True

    def purge(self, cutoff: datetime, *, by: str) -> int:
        def is_old(number: int, dead_at: datetime) -> bool:
            row = self.rows[number]
            return row.state is not State.PARKED and (dead_at if by == "dead_at" else row.created_at) <= cutoff

        old = [row for row in self.rows.values() if row.letter and is_old(row.id, row.letter.dead_at)]
        self.closed = [(number, dead_at) for number, dead_at in self.closed if not is_old(number, dead_at)]
        kept = {number for number, _ in self.closed}
        for row in old:
            row.letter = None
            if row.id not in kept:
                del self.rows[row.id]
        return len(old)

    def status(self, row: Row) -> Status:
        if row.letter is not None:
            return row.letter.status
        if row.state is None:
            return Status.COMPLETED
        return Status.PROCESSING if row.state is State.LEASED else Status.PENDING

    def _failed(self, row: Row, error: str, action: str, now: datetime) -> None:
        row.failures += row.state is State.LEASED  # ended by hand, it was no attempt that failed
        row.errors.append(error)
        row.log.append((action, now))

    def _bury(self, row: Row, outcome: Bury, now: datetime, action: str) -> None:
        if outcome.error is not None:
            self._failed(row, outcome.error, action, now)
        row.log.append(("DEAD", now))
        counters = (row.attempts, row.failures, list(row.errors))
        row.letter = Letter(*counters, outcome.reason, outcome.status, row.worker, now)
        if row.parks and row.key is not None and row.state is not State.BEHIND:
            row.state, row.due, row.worker = State.PARKED, None, None
        else:
            self._leave(row, now)

    def _leave(self, row: Row, now: datetime) -> None:
        """The delivery is gone, and the next of its key steps forward."""
        row.state, row.due, row.worker = None, None, None
        behind = [each for each in self.open() if row.key is not None and each.key == row.key]
        if behind and self.head(row.key) is None:
            later = behind[0].due is not None and behind[0].due > now
            behind[0].state = State.WAITING if later else State.READY
            behind[0].due = behind[0].due if later else None
