"""What is known of one delivery from the outside, and whether its row in the store agrees with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from eventhub.core.lifecycle import State
from eventhub.testing.simulation.model import Row

__all__ = ["Broken", "Track", "agree", "signature"]


class Broken(Exception):
    """A promise was broken: which of the twelve invariants, and how. Number 0: two stores differ; 13: the waits."""

    def __init__(self, invariant: int, words: str) -> None:
        super().__init__(words)
        self.invariant, self.words = invariant, words


@dataclass(slots=True)
class Track:
    """One delivery as its claims and reports tell it; ``worker`` holds it until ``until``.

    ``granted`` is the attempt that an operator allowed beyond the limit, by taking the last one away.
    """

    id: int
    event: int
    consumer: str
    key: str | None
    max_attempts: int | None
    due: datetime | None
    parks: bool
    fence: int = 0
    attempts: int = 0
    granted: int = 0
    failures: int = 0
    worker: str | None = None
    until: datetime | None = None
    completed: bool = False
    dead: bool = False
    parked: bool = False
    reason: str = ""
    oks: int = 0
    changed: bool = True
    seen: tuple[object, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether its key may go on without it."""
        return self.completed or (self.dead and not self.parked)

    def lapses(self) -> None:
        """Its lease has ended, or its worker is known to be dead: the attempt counts."""
        self.worker = self.until = None
        self.failures += 1
        self.changed = True
        if self.max_attempts is not None and self.attempts >= self.max_attempts:
            self.dies("worker_lost")

    def dies(self, reason: str) -> None:
        self.worker = self.until = self.due = None
        self.dead, self.parked, self.reason = True, self.parks and self.key is not None, reason
        self.changed = True


def signature(row: Row) -> tuple[object, ...]:
    """What of a row changes when anything does."""
    return row.state, row.fence, row.due, row.attempts, len(row.log)


def agree(track: Track, row: Row) -> None:
    """Raise Broken if the row is not what was promised."""
    if row.fence != track.fence:
        _broken(6, row, f"its fence is {row.fence}, and claims were {track.fence}")
    if (row.state is State.LEASED) != (track.worker is not None):
        _broken(6, row, f"it is {_named(row.state)}, and held by {track.worker or 'nobody'}")
    if row.state is State.LEASED and (row.worker, row.due) != (track.worker, track.until):
        _broken(6, row, f"{row.worker} has it until {row.due}, and was promised {track.worker} until {track.until}")
    if row.attempts != track.attempts:
        _broken(4, row, f"it counts {row.attempts} attempts, and there were {track.attempts}")
    if (row.state is None) != track.settled:
        _broken(1 if row.state is None else 5, row, f"it is {_named(row.state)}, and was {_ended(track)}")
    if (row.state is State.PARKED) != track.parked:
        _broken(3, row, f"it is {_named(row.state)}, and should{'' if track.parked else ' not'} hold its key")
    if (row.letter is not None) != track.dead:
        _broken(1 if track.dead else 5, row, f"it has {'a' if row.letter else 'no'} dead letter, {_ended(track)}")
    if not track.completed and row.failures != track.failures:
        _broken(7, row, f"it counts {row.failures} failures, and there were {track.failures}")
    _is_complete(track, row)
    _folds(row)


def _is_complete(track: Track, row: Row) -> None:
    letter = row.letter
    if letter is None:
        return
    if (letter.attempts, letter.failures) != (track.attempts, track.failures) or len(letter.errors) < letter.failures:
        _broken(8, row, f"its letter tells {letter.attempts} attempts, {letter.failures} failures, {letter.errors}")
    if letter.reason != track.reason or not all(letter.errors):
        _broken(8, row, f"its letter says {letter.reason!r}, and it died of {track.reason!r}")


def _folds(row: Row) -> None:
    """The log alone must tell how the delivery stands."""
    at, attempts, failures = "open", 0, 0
    for action, _ in row.log:
        if at in ("completed", "dead") and action not in ("RETRIED", "SKIPPED"):
            _broken(5, row, f"{action} follows its end in the log")
        if action == "PICKED":
            at, attempts = "leased", attempts + 1
        elif action in ("FAILED", "ABANDONED"):
            at, failures = "open", failures + 1
        elif action == "RELEASED":
            at, attempts = "open", attempts - 1
        elif action == "RESET":
            at = "open"
        elif action == "RETRIED":
            at, attempts, failures = "open", 0, 0
        elif action in ("COMPLETED", "DEAD"):
            at = action.lower()
    told = "dead" if row.letter is not None else "completed" if row.state is None else "open"
    told = "leased" if row.state is State.LEASED else told
    if (at, attempts, failures) != (told, row.attempts, row.failures):
        _broken(7, row, f"its log tells {at}, {attempts} attempts, {failures} failures; it is {told}, "
                f"{row.attempts}, {row.failures}")  # fmt: skip


def _ended(track: Track) -> str:
    return "completed" if track.completed else f"dead of {track.reason}" if track.dead else "not settled"


def _named(state: State | None) -> str:
    return "gone" if state is None else state.name


def _broken(invariant: int, row: Row, words: str) -> NoReturn:
    raise Broken(invariant, f"delivery {row.id} of event {row.event} to {row.consumer}: {words}")
