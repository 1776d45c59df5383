"""The virtual processes: what publishers, workers, dispatchers and the others do, step by step.

A role is a generator. It yields a call to the store and gets the reply, or LOST when none came; it yields ``Rest`` to
let time pass, and ``Handle`` or ``Send`` where a handler runs or a receiver is asked. It can be cut off at any of
these, as a process can be killed at any time. What it decides, it decides by the rules of the core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from random import Random
from typing import Any, Final

import msgspec

from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Release, State
from eventhub.core.verdicts import TIMEOUT, Answer, judge
from eventhub.store.messages import routes_of
from eventhub.store.values import NewEvent, Report
from eventhub.testing.simulation.calls import (
    Claim,
    ClaimMessages,
    Extend,
    FanOut,
    Grant,
    Publish,
    Refused,
    Reset,
    RetryDead,
    Settle,
    TakeBack,
    Tend,
    Unpark,
)
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.setup import LEASE, Setup

__all__ = ["LOST", "Batch", "Handle", "Process", "Rest", "Role", "Send", "dispatch", "fan_out", "janitor", "operate",
           "publish", "work"]  # fmt: skip


class _Lost:
    def __repr__(self) -> str:
        return "no reply"


LOST: Final = _Lost()
_LONGEST_REST: Final = 4


class Rest(msgspec.Struct, frozen=True):
    """Let so many seconds pass."""

    seconds: int


class Handle(msgspec.Struct, frozen=True):
    """Run the handler of a worker; the reply is what it said."""

    grant: Grant


class Send(msgspec.Struct, frozen=True):
    """Ask a subscriber's receiver; the reply is its status, or LOST."""

    grant: Grant
    subscriber: int


Role = Generator[Any, Any, None]


class Batch(msgspec.Struct):
    """What a publisher sends in one call; ``keyed`` batches may be sent again."""

    events: tuple[NewEvent, ...]
    keyed: bool
    conflicting: bool = False
    sent: bool = False


class Process:
    """A process with what it would find again after a crash: its outbox. Its name is new after each."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number
        self.lives = 1
        self.outbox: deque[Batch] = deque()

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}.{self.lives}"


def publish(process: Process, dice: Random, *, twice: bool) -> Role:
    """Send what is in the outbox, in order; without a key nobody may send a second time."""
    while process.outbox:
        batch = process.outbox[0]
        if batch.sent and not batch.keyed:
            process.outbox.popleft()
            continue
        batch.sent = True
        reply = yield Publish(batch.events)
        if reply is LOST:
            yield Rest(dice.randint(0, 3))
            continue
        process.outbox.popleft()
        if not isinstance(reply, Refused) and batch.keyed and twice and dice.random() < 0.3:  # noqa: PLR2004
            yield Publish(batch.events)
        yield Rest(dice.randint(0, 4))


def work(process: Process, dice: Random, setup: Setup) -> Role:
    """Claim, handle and report, one after the other."""
    rest = 1
    while True:
        wanted = Claim(process.name, LEASE, dice.choice((1, 1, 2, 3)), setup.max_attempts)
        grants = yield wanted
        if grants is LOST or not grants:
            yield Rest(rest)
            rest = min(rest * 2, _LONGEST_REST)
            continue
        rest = 1
        for grant in grants:
            if dice.random() < 0.05:  # noqa: PLR2004 - it is told to stop, and gives back what it has not begun
                yield from _settle(Report(grant.held, Release()))
                continue
            if dice.random() < 0.2 and (yield Extend(grant.held, LEASE)) is False:  # noqa: PLR2004
                continue
            said = yield Handle(grant)
            outcome: Outcome = Complete()
            if said == "failed":
                outcome = setup.policy.after_failure(grant.attempts, "failed", roll=dice.uniform(-1, 1))
            elif said == "refused":
                outcome = Bury("refused", Reason.REJECTED)
            yield from _settle(Report(grant.held, outcome))


def dispatch(process: Process, dice: Random, setup: Setup) -> Role:
    """Send the messages of all subscribers in turn, and report what their receivers answered."""
    rest = 1
    while True:
        yield Tend()
        found = False
        for number, subscriber in enumerate(setup.subscribers, start=1):
            grants = yield ClaimMessages(number, process.name, LEASE, dice.choice((1, 2, 3)), dice.random())
            if grants is LOST:
                continue
            found = found or bool(grants)
            for grant in grants:
                status = yield Send(grant, number)
                answer = Answer(failure=TIMEOUT) if status is LOST else Answer(status=status, retry_after=2.0)
                verdict = judge(answer, subscriber, attempts=grant.attempts, roll=dice.uniform(-1, 1))
                yield from _settle(Report(grant.held, verdict.outcome, again=routes_of(number)[1]))
        rest = 1 if found else min(rest * 2, _LONGEST_REST)
        yield Rest(rest)


def _settle(report: Report) -> Role:
    """Report; when no reply came once more, for whoever has been heard already is only refused."""
    if (yield Settle((report,))) is LOST:
        yield Settle((report,))


def fan_out(dice: Random) -> Role:
    """Make messages of broadcasts, a few at a time."""
    while True:
        made = yield FanOut(dice.choice((1, 2, 5)))
        if made is LOST or not made:
            yield Rest(dice.randint(1, 3))


def janitor(memory: Memory, dice: Random, died: list[str], healed: Callable[[], bool]) -> Role:
    """Tend, take back what the dead held, of whose death it learns now and then, and in the end free every key."""
    while True:
        yield Tend()
        if healed():
            parked = [row for row in memory.model.rows.values() if row.state is State.PARKED]
            for row in parked:
                yield Unpark(row.consumer, row.key or "")
        if died and dice.random() < 0.3:  # noqa: PLR2004
            yield TakeBack(died.pop())
        yield Rest(dice.randint(2, 5))


def operate(memory: Memory, dice: Random) -> Role:
    """Retry the dead, unpark keys, and take work away from workers, without much sense."""
    rows = memory.model.rows
    while True:
        yield Rest(dice.randint(2, 8))
        dead = [row for row in rows.values() if row.letter is not None]
        leased = [row.id for row in rows.values() if row.state is State.LEASED and row.id == row.event]
        if dead and dice.random() < 0.5:  # noqa: PLR2004
            row = dice.choice(dead)
            if row.state is State.PARKED and dice.random() < 0.5:  # noqa: PLR2004
                yield Unpark(row.consumer, row.key or "")
            else:
                yield RetryDead(row.id)
        elif leased and dice.random() < 0.3:  # noqa: PLR2004
            yield Reset(dice.choice(leased))
