"""Many seeds one after the other; the first that breaks a promise is made smaller, run again and told step by step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from eventhub.testing.simulation.setup import FAULTS, Setup
from eventhub.testing.simulation.sqlite_twin import SqliteTwin
from eventhub.testing.simulation.watcher import INVARIANTS, Broken
from eventhub.testing.simulation.world import Step, Twin, World

__all__ = ["Failure", "Verdict", "replay", "simulate", "smaller"]

TELL_EVERY: Final = 0.5
"""Seconds between two words about how far it is."""
TOLD: Final = 60
"""Lines of a trace that are shown at its end: what matters is near the first bad step."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A seed that broke a promise, and the first step after which it was broken."""

    seed: int
    step: int
    invariant: int
    name: str
    words: str
    setup: Setup
    """The smallest in which the seed, or one near it, still breaks the same promise."""
    smallest_step: int
    trace: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came out, in figures; ``failure`` is the first, and none is good."""

    first: int
    seeds: int
    seconds: float
    figures: dict[str, int]
    failure: Failure | None

    @property
    def clean(self) -> bool:
        return self.failure is None

    @property
    def seeds_per_minute(self) -> float:
        return self.seeds / self.seconds * 60 if self.seconds else 0.0


def simulate(
    seeds: int, first: int, told: Callable[[int, int], None] | None = None, *, sqlite: bool = False
) -> Verdict:
    """Run so many seeds from the first on, until one fails; ``told`` hears now and then how many of how many are done.

    With ``sqlite`` a real SQLite store in memory gets every call, too, and must stand as the model after every step.
    """
    started = heard = time.monotonic()
    figures: Counter[str] = Counter()
    failure = None
    done = 0
    for seed in range(first, first + seeds):
        world, broken = _run(Setup.drawn(seed), sqlite=sqlite)
        done += 1
        figures.update(world.figures)
        figures.update(world.watcher.figures)
        figures["steps"] += world.steps
        if broken is not None:
            failure = _explained(seed, world.steps, broken, sqlite=sqlite)
            break
        if told is not None and (moment := time.monotonic()) - heard >= TELL_EVERY:
            heard = moment
            told(done, seeds)
    seconds = time.monotonic() - started
    return Verdict(first=first, seeds=done, seconds=seconds, figures=dict(sorted(figures.items())), failure=failure)


def replay(setup: Setup, *, sqlite: bool = False) -> tuple[list[str], Broken | None]:
    """The same history again, in words: one line a step."""
    world, broken = _run(setup, sqlite=sqlite, traced=True)
    return [_line(step) for step in world.trace], broken


def smaller(setup: Setup, invariant: int, *, sqlite: bool = False) -> Setup:
    """A setup with fewer faults, processes and calls that breaks the same promise, under this seed or one near it."""
    found = setup
    shrinks = True
    while shrinks:
        shrinks = False
        for candidate in _candidates(found):
            near = (msgspec.structs.replace(candidate, seed=seed) for seed in (found.seed, *range(10)))
            hit = next((each for each in near if _breaks(each, invariant, sqlite=sqlite)), None)
            if hit is not None:
                found, shrinks = hit, True
                break
    return found


def _candidates(setup: Setup) -> Iterator[Setup]:
    for fault in FAULTS:
        if fault in setup.faults:
            yield msgspec.structs.replace(setup, faults=setup.faults - {fault})
    for field in ("publishers", "calls", "workers", "dispatchers", "fan_outs"):
        count = getattr(setup, field)
        if count > 1:
            yield msgspec.structs.replace(setup, **{field: count - 1})
    if setup.subscribers:
        left = setup.subscribers[:-1]
        yield msgspec.structs.replace(setup, subscribers=left, dispatchers=setup.dispatchers if left else 0)


def _breaks(setup: Setup, invariant: int, *, sqlite: bool) -> bool:
    _, broken = _run(setup, sqlite=sqlite)
    return broken is not None and broken.invariant == invariant


def _explained(seed: int, step: int, broken: Broken, *, sqlite: bool) -> Failure:
    setup = smaller(Setup.drawn(seed), broken.invariant, sqlite=sqlite)
    trace, again = replay(setup, sqlite=sqlite)
    told = again or broken
    world, _ = _run(setup, sqlite=sqlite)
    return Failure(
        seed=seed,
        step=step,
        invariant=broken.invariant,
        name=INVARIANTS[broken.invariant],
        words=told.words,
        setup=setup,
        smallest_step=world.steps,
        trace=tuple(trace[-TOLD:]),
    )


def _run(setup: Setup, *, sqlite: bool, traced: bool = False) -> tuple[World, Broken | None]:
    with _twin(setup, sqlite=sqlite) as twin:
        world = World(setup, twin=twin, traced=traced)
        try:
            world.run()
        except Broken as broken:
            return world, broken
        return world, None


@contextmanager
def _twin(setup: Setup, *, sqlite: bool) -> Iterator[Twin | None]:
    if not sqlite:
        yield None
        return
    twin = SqliteTwin(setup)
    try:
        yield twin
    finally:
        twin.close()


def _line(step: Step) -> str:
    number, second, name, what, reply = step
    said = "" if reply is None else f"  →  {_short(reply)}"
    return f"{number:>4}  {second:>4} s  {name:<14}{_short(what)}{said}"


def _short(value: Any) -> str:
    """A value without what is the same in every line."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_short(each) for each in value) + "]"
    if isinstance(value, msgspec.Struct):
        fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
        shown = ", ".join(f"{name}={_short(each)}" for name, each in fields if each not in (None, (), False, ""))
        return f"{type(value).__name__}({shown})"
    return str(value)
