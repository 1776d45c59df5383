"""One seed: a virtual clock, a scheduler that draws who comes next, and faults between every two steps.

    process ──request──▶ (on its way) ──▶ store ──reply──▶ (on its way, or lost) ──▶ process, perhaps paused or dead

A request of a process that died meanwhile arrives all the same. All that is drawn comes from the seed, so a seed is one
history, always the same. After ``HEALED`` there are no more faults, and everything must come to an end.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Protocol

from eventhub.core.strict_json import dump
from eventhub.store.values import NewEvent, Route
from eventhub.testing.simulation import roles
from eventhub.testing.simulation.calls import Call, Grant, Reply
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.model import Forbidden
from eventhub.testing.simulation.roles import LOST, Batch, Handle, Process, Rest, Role, Send
from eventhub.testing.simulation.setup import LEASE, START, Setup, directory
from eventhub.testing.simulation.watcher import Broken, Watcher

__all__ = ["Step", "Twin", "World"]

HEALED: Final = 40
PATIENCE: Final = 400
"""Virtual seconds after the healing in which everything must have come to its end."""
MOST_STEPS: Final = 5_000
TIMEOUT: Final = 5
_TYPES: Final = ("order.paid", "order.sent", "user.made", "tick")
_KEYS: Final = (None, None, "a", "b")

Step = tuple[int, int, str, Any, Any]
"""Its number, the second, who, what was asked, and the reply."""


class Twin(Protocol):
    """A real store that is asked the same and must say the same."""

    def compare(self, call: Call, reply: Reply, memory: Memory, now: datetime) -> str | None:
        """What is different, if anything."""

    def ends(self, memory: Memory) -> str | None:
        """The same of what is compared in the end only."""


class World:
    """Runs one setup to its end, or to the first step that breaks a promise."""

    def __init__(self, setup: Setup, *, twin: Twin | None = None, traced: bool = False) -> None:
        self.setup = setup
        self.dice = Random(setup.seed * 2 + 1)  # noqa: S311 - to be the same again is the point
        self.memory = Memory(directory(setup).plan(), len(setup.subscribers) + 1)
        self.watcher = Watcher(setup, self.memory)
        self.figures: Counter[str] = Counter()
        self.trace: list[Step] = []
        self.steps = 0
        self._twin, self._traced = twin, traced
        self._second = self._offset = self._turn = 0
        self._coming: list[tuple[int, float, int, Process, int, Any, bool]] = []
        self._running: dict[Process, Role] = {}
        self._died: list[str] = []

    @property
    def now(self) -> datetime:
        """The time of the store, whose clock may have been put forward or back."""
        return START + timedelta(seconds=self._second + self._offset)

    def run(self) -> None:
        """Raises Broken at the first step that breaks a promise."""
        self._begin()
        while self._coming and self.steps < MOST_STEPS:
            second, _, _, process, life, value, arrives = heappop(self._coming)
            self._second = second
            if second >= HEALED and self._is_over():
                break
            if second > HEALED + PATIENCE:
                raise Broken(11, f"not drained {PATIENCE} virtual seconds after the last fault")
            if arrives:
                self._ask(process, life, value)
            elif process.lives == life:
                self._resume(process, value)
        else:
            raise Broken(11, f"not drained after {self.steps} steps")
        self.watcher.end(self._harms)
        if self._twin is not None and (different := self._twin.ends(self.memory)):
            raise Broken(0, different)

    # --------------------------------------------------------------- starting

    def _begin(self) -> None:
        setup = self.setup
        kinds = {
            "publisher": setup.publishers,
            "worker": setup.workers,
            "dispatcher": setup.dispatchers,
            "fan-out": setup.fan_outs,
            "janitor": 1,
            "operator": int("operator" in setup.faults),
        }
        for kind, count in kinds.items():
            for number in range(1, count + 1):
                process = Process(kind, number)
                if kind == "publisher":
                    self._fill(process)
                self._start(process, self.dice.randint(0, 2))

    def _start(self, process: Process, after: int) -> None:
        self._running[process] = self._role(process)
        self._later(after, process, None)

    def _role(self, process: Process) -> Role:
        dice = self.dice
        if process.kind == "publisher":
            return roles.publish(process, dice, twice="duplicate" in self.setup.faults)
        if process.kind == "worker":
            return roles.work(process, dice, self.setup)
        if process.kind == "dispatcher":
            return roles.dispatch(process, dice, self.setup)
        if process.kind == "fan-out":
            return roles.fan_out(dice)
        if process.kind == "janitor":
            return roles.janitor(self.memory, dice, self._died, self._has_healed)
        return roles.operate(self.memory, dice)

    def _fill(self, process: Process) -> None:
        """The outbox of a publisher: a key belongs to one publisher only, whose calls follow one another."""
        dice, made = self.dice, 0
        for call in range(self.setup.calls):
            keyed = dice.random() < 0.7  # noqa: PLR2004
            events = []
            for place in range(dice.choice((1, 1, 2, 3))):
                made += 1
                events.append(self._event(process, made, f"{process.number}/{call}/{place}" if keyed else None))
            process.outbox.append(Batch(tuple(events), keyed))
            if keyed and "duplicate" in self.setup.faults and dice.random() < 0.2:  # noqa: PLR2004
                made += 1
                other = self._event(process, made, events[0].idempotency_key)
                process.outbox.append(Batch((other,), keyed=True, conflicting=True))
                self.watcher.arrivals.conflicting.add(other.payload)

    def _event(self, process: Process, number: int, idempotency_key: str | None) -> NewEvent:
        dice = self.dice
        key = dice.choice(_KEYS)
        key = None if key is None else f"{key}{process.number}"
        kind = dice.choice(("work", "both", "broadcast"))
        payload = {"token": f"{process.number}-{number}", "key": key, "n": number}
        return NewEvent(
            type=dice.choice(_TYPES),
            payload=dump(payload),
            route=Route("work"),
            ordering_key=key,
            idempotency_key=idempotency_key,
            max_attempts=self.setup.max_attempts,
            park_when_dead=dice.random() < 0.3,  # noqa: PLR2004
            delay=timedelta(seconds=dice.randint(1, 9)) if dice.random() < 0.2 else None,  # noqa: PLR2004
            work=kind != "broadcast",
            broadcast=kind != "work",
        )

    # -------------------------------------------------------------- stepping

    def _later(self, after: int, process: Process, value: Any, *, arrives: bool = False) -> None:
        self._turn += 1
        entry = (self._second + after, self.dice.random(), self._turn, process, process.lives, value, arrives)
        heappush(self._coming, entry)

    def _resume(self, process: Process, value: Any) -> None:
        if self._strikes("crash", 0.02):
            return self._crash(process)
        if self._strikes("jump", 0.005):
            self._offset += self.dice.choice((-3, 3, -20, 20)) * LEASE.seconds // 3
            self._note(process, "the clock of the store jumps", self.now)
        try:
            wanted = self._running[process].send(value)
        except StopIteration:
            return None
        if isinstance(wanted, Rest):
            return self._later(wanted.seconds, process, None)
        if isinstance(wanted, Handle):
            return self._handle(process, wanted)
        if isinstance(wanted, Send):
            return self._send(process, wanted)
        return self._later(self.dice.choice((0, 0, 1)), process, wanted, arrives=True)

    def _ask(self, process: Process, life: int, call: Call) -> None:
        """A call arrives at the store; whether its reply arrives is another matter."""
        self.steps += 1
        self.watcher.begins(call)
        try:
            reply = self.memory.answer(call, self.now)
        except Forbidden as forbidden:
            self._note(process, call, forbidden)
            raise Broken(5, str(forbidden)) from None
        self._note(process, call, reply)
        self.watcher.ended(call, reply, self.now)
        if self._twin is not None and (different := self._twin.compare(call, reply, self.memory, self.now)):
            raise Broken(0, different)
        if process.lives != life:
            return
        if self._strikes("lost", 0.04):
            self._note(process, "gets no reply", None)
            self._later(TIMEOUT, process, LOST)
            return
        self.watcher.heard(call, reply)
        self._later(self.dice.choice((0, 0, 1)) + self._pause(process), process, reply)

    def _handle(self, process: Process, wanted: Handle) -> None:
        """The effect is there before the worker knows; some events kill whoever handles them."""
        draw = self.dice.random()
        said = "done"
        if self._is_poison(wanted.grant) and self._second < HEALED:
            self._note(process, wanted, "dies of it")
            return self._crash(process)
        if "failure" in self.setup.faults and self._second < HEALED and draw < 0.35:  # noqa: PLR2004
            said = "refused" if draw < 0.05 else "failed"  # noqa: PLR2004
        self._note(process, wanted, said)
        self.watcher.handled(wanted.grant, ok=said == "done", said=said)
        return self._later(self.dice.randint(0, 3) + self._pause(process), process, said)

    def _send(self, process: Process, wanted: Send) -> None:
        status = 200
        if "failure" in self.setup.faults and self._second < HEALED:
            status = self.dice.choice((200, 200, 200, 204, 500, 503, 429, 404, 410, 302))
        lost = self._strikes("lost", 0.05)
        self._note(process, wanted, f"{status}, which is lost" if lost else status)
        said = "timeout" if lost else str(status)
        self.watcher.handled(wanted.grant, ok=200 <= status < 300, said=said)  # noqa: PLR2004
        return self._later(self.dice.randint(0, 2) + self._pause(process), process, LOST if lost else status)

    # ----------------------------------------------------------------- faults

    def _strikes(self, fault: str, chance: float) -> bool:
        struck = fault in self.setup.faults and self._second < HEALED and self.dice.random() < chance
        self.figures[fault] += struck
        return struck

    def _pause(self, process: Process) -> int:
        """Longer than any lease."""
        if not self._strikes("pause", 0.03):
            return 0
        self._note(process, "is paused", None)
        return self.dice.randint(1, 3) * LEASE.seconds + 1

    def _crash(self, process: Process) -> None:
        self._note(process, "is killed", None)
        self.figures["killed"] += 1
        self._died.append(process.name)
        process.lives += 1
        self._start(process, self.dice.randint(0, 4))

    def _is_poison(self, grant: Grant) -> bool:
        return "poison" in self.setup.faults and grant.event % 11 == 3  # noqa: PLR2004

    @property
    def _harms(self) -> int:
        harmed = ("killed", "lost", "pause", "jump")
        return sum(self.figures[each] for each in harmed) + self.watcher.operated

    def _has_healed(self) -> bool:
        return self._second >= HEALED

    def _is_over(self) -> bool:
        return self.memory.drained and not any(process.outbox for process in self._running)

    def _note(self, process: Process, what: Any, reply: Any) -> None:
        if self._traced:
            self.trace.append((self.steps, self._second, process.name, what, reply))
