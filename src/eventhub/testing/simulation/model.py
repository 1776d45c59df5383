"""The store in memory, as the rules say it: no SQL, no batches, no concurrency, only what must come out.

Every change of a state goes through the table of moves in the core, which refuses what no delivery may do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from eventhub.core.events import Status
from eventhub.core.lifecycle import MOVES, Bury, Complete, Move, Outcome, Reason, Release, Retry, State, public_status
from eventhub.testing.simulation.steps import EPOCH, STEP, Step

__all__ = ["LOST", "WORK", "Forbidden", "Letter", "Model", "Row"]

LOST: Final = "Abandoned: {} did not report before its lease ended."
WORK: Final = "work"
"""The consumer of deliveries that any worker may take; the others are subscribers."""


class Forbidden(Exception):
    """A move that the table of the core does not have."""


@dataclass(slots=True)
class Letter:
    """What the dead letter queue shows."""

    attempts: int
    failures: int
    errors: list[str]
    reason: str
    status: Status
    worker: str | None
    dead_at: datetime


@dataclass(slots=True)
class Row:
    """One delivery; ``state`` is None when it is settled. That of work has the number of its event."""

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
    consumer: str = WORK
    event: int = 0
    failed_before: bool = False

    def move(self, move: Move, to: State | None) -> None:
        """Go to a state, if the core has such a move."""
        allowed, targets, _ = MOVES[move]
        if self.state not in allowed or to not in targets:
            raise Forbidden(f"delivery {self.id} cannot {move} from {self.state!r} to {to!r}")
        self.state = to


class Model:
    """All deliveries by their numbers, which grow."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.closed: list[tuple[int, datetime]] = []
        self._seen = EPOCH

    def open(self) -> list[Row]:
        return [row for row in self.rows.values() if row.state is not None]

    def head(self, key: str | None, consumer: str = WORK) -> Row | None:
        """The one delivery of a key that is not behind another."""
        if key is None:
            return None
        return next((row for row in self._lane(key, consumer) if row.state is not State.BEHIND), None)

    def _lane(self, key: str | None, consumer: str) -> list[Row]:
        return [
            row
            for row in self.rows.values()
            if row.state is not None and row.key is not None and row.key == key and row.consumer == consumer
        ]

    def publish(self, row: Row, now: datetime) -> None:
        """A new delivery, which stands behind the head of its key if there is one."""
        if row.consumer == WORK:
            row.log.append(("PUBLISHED", now))
        if self.head(row.key, row.consumer) is not None:
            row.state = State.BEHIND
        if row.state is State.LEASED:
            row.fence = row.attempts = 1
            row.log.append(("PICKED", now))
        self.rows[row.id] = row

    def claim(self, limit: int, worker: str, lease: timedelta, max_attempts: int | None, now: datetime) -> list[Row]:
        """Lease the oldest ready work, after a round of tending."""
        self.tend(now)
        taken = self.ready(WORK)[:limit]
        self.lease(taken, worker, lease, max_attempts, now)
        return taken

    def ready(self, consumer: str) -> list[Row]:
        """What could be claimed for a consumer, the oldest first."""
        return [row for row in self.rows.values() if row.state is State.READY and row.consumer == consumer]

    def lease(self, rows: list[Row], worker: str, lease: timedelta, max_attempts: int | None, now: datetime) -> None:
        """Each claim raises the fence, which is never reset."""
        for row in rows:
            row.move(Move.CLAIM, State.LEASED)
            row.due, row.worker = now + lease, worker
            row.fence, row.attempts = row.fence + 1, row.attempts + 1
            row.max_attempts = row.max_attempts if max_attempts is None else max_attempts
            row.log.append(("PICKED", now))

    def follow_clock(self, now: datetime, *, to_hand_out: bool) -> Step | None:
        """What waits beyond the highest time seen was scheduled before the clock was set back."""
        step = Step(self._seen, now) if now <= self._seen - STEP else None
        if step:
            for row in self.open():
                row.due = step.moved(row.due)
        waits = to_hand_out or any(row.state in (State.LEASED, State.WAITING) for row in self.open())
        self._seen = now if step or (waits and now >= self._seen + STEP) else self._seen
        return step

    def tend(self, now: datetime) -> None:
        """What is due is ready; a lease is over strictly after its end."""
        for row in self.open():
            if row.state is State.WAITING and row.due is not None and row.due <= now:
                row.move(Move.PROMOTE, State.READY)
                row.due = None
        for row in self.open():
            if row.state is State.LEASED and row.due is not None and row.due < now:
                self.abandon(row, now)

    def abandon(self, row: Row, now: datetime) -> None:
        """The attempt counts; when it was the last that is allowed, it kills."""
        error = LOST.format(row.worker)
        if row.max_attempts is not None and row.attempts >= row.max_attempts:
            self._bury(row, Bury(error, Reason.WORKER_LOST), now, "ABANDONED")
        else:
            self._failed(row, error, "ABANDONED", now)
            row.move(Move.ABANDON, State.READY)
            row.due, row.worker = None, None

    def report(self, number: int, fence: int, outcome: Outcome, *, leased: bool, now: datetime) -> bool:
        """Whether the report was accepted: number, fence and state must match."""
        row = self.rows.get(number)
        if row is None or row.state is None or row.fence != fence or (row.state is State.LEASED) != leased:
            return False
        if not leased and (row.state is State.PARKED or isinstance(outcome, Retry | Release)):
            return False
        if isinstance(outcome, Complete):
            row.log.append(("COMPLETED", now))
            self._leave(row, Move.COMPLETE, now)
        elif isinstance(outcome, Bury):
            self._bury(row, outcome, now, "FAILED")
        else:
            self._again(row, outcome, now)
        return True

    def _again(self, row: Row, outcome: Retry | Release, now: datetime) -> None:
        later = outcome.delay > timedelta(0)
        to = State.WAITING if later else State.READY
        if isinstance(outcome, Retry):
            self._failed(row, outcome.error, "FAILED", now)
            row.move(Move.RETRY, to)
            row.failed_before = True
        else:
            row.attempts -= 1
            row.log.append(("RELEASED", now))
            row.move(Move.RELEASE, to)
        row.due, row.worker = now + outcome.delay if later else None, None

    def extend(self, number: int, fence: int, lease: timedelta, now: datetime) -> bool:
        """A lease becomes longer, never shorter."""
        row = self.rows.get(number)
        if row is None or row.state is not State.LEASED or row.fence != fence:
            return False
        row.move(Move.EXTEND, State.LEASED)
        row.due = max(row.due or now, now + lease)
        return True

    def reset(self, number: int, now: datetime) -> bool:
        """An operator takes a delivery away from its worker, and grants another attempt if that was the last."""
        row = self.rows.get(number)
        if row is None or row.state is not State.LEASED:
            return False
        row.move(Move.RESET, State.READY)
        row.due, row.worker = None, None
        if row.max_attempts is not None and row.max_attempts <= row.attempts:
            row.max_attempts = row.attempts + 1
        row.log.append(("RESET", now))
        return True

    def take_back(self, worker: str, now: datetime) -> None:
        """The claims of a worker that is known to be dead need not wait for their leases."""
        for row in self.open():
            if row.state is State.LEASED and row.worker == worker:
                self.abandon(row, now)

    def retry_dead(self, number: int, now: datetime) -> bool:
        """A full reset of a dead letter; only the fence goes on."""
        row = self.rows.get(number)
        if row is None or row.letter is None:
            return False
        self.closed.append((number, row.letter.dead_at))
        free = row.state is State.PARKED or self.head(row.key, row.consumer) is None
        row.state, row.due, row.worker = State.READY if free else State.BEHIND, None, None
        row.letter, row.attempts, row.failures, row.errors = None, 0, 0, []
        row.log.append(("RETRIED", now))
        self._step_back(row, now)
        return True

    def _step_back(self, revived: Row, now: datetime) -> None:
        """A head that nobody has taken lets an older one pass."""
        head = self.head(revived.key, revived.consumer)
        if head is None or head.state not in (State.READY, State.WAITING):
            return
        first = self._lane(revived.key, revived.consumer)[0]
        if first.state is State.BEHIND and first.id < head.id:
            head.state = State.BEHIND
            self._advance(first, now)

    def unpark(self, key: str, now: datetime, consumer: str = WORK) -> bool:
        """Let a key go on past its dead head."""
        head = self.head(key, consumer)
        if head is None or head.state is not State.PARKED:
            return False
        head.log.append(("SKIPPED", now))
        self._leave(head, None, now)
        return True

    def purge(self, cutoff: datetime, *, by: str) -> int:
        """Delete old dead letters, and the events that nothing else needs."""

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
        """What the outside sees of a delivery."""
        if row.letter is not None:
            return row.letter.status
        return Status.COMPLETED if row.state is None else public_status(row.state)

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
            row.move(Move.BURY, State.PARKED)
            row.due, row.worker = None, None
        else:
            self._leave(row, Move.BURY, now)

    def _leave(self, row: Row, move: Move | None, now: datetime) -> None:
        """The delivery is gone, and the next of its key steps forward; one that was parked had died before."""
        if move is None:
            row.state = None
        else:
            row.move(move, None)
        row.due, row.worker = None, None
        if row.key is not None and self.head(row.key, row.consumer) is None:
            for following in self._lane(row.key, row.consumer)[:1]:
                self._advance(following, now)

    def _advance(self, row: Row, now: datetime) -> None:
        later = row.due is not None and row.due > now
        row.move(Move.ADVANCE, State.WAITING if later else State.READY)
        row.due = row.due if later else None
