"""A verdict in words: what was simulated in figures, and of a failure the history up to the first bad step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventhub.testing.simulation.running import Failure, Verdict

__all__ = ["told"]

_FIGURES: Final = {
    "events": "events",
    "deliveries": "deliveries",
    "claims": "claims",
    "killed": "processes killed",
    "lost": "replies lost",
    "pause": "pauses beyond a lease",
    "jump": "jumps of the clock",
    "late": "late reports refused",
    "duplicates": "duplicate effects",
    "dead": "dead letters",
}


def told(verdict: Verdict) -> Iterator[str]:
    """Line by line."""
    yield (
        f"{verdict.seeds:,} seeds from {verdict.first:,} on in {verdict.seconds:,.1f} s "
        f"({verdict.seeds_per_minute:,.0f} a minute)"
    )
    yield ", ".join(f"{verdict.figures.get(name, 0):,} {words}" for name, words in _FIGURES.items())
    if verdict.failure is None:
        yield "Every promise was kept, after every step and in the end."
    else:
        yield from _explained(verdict.failure)


def _explained(failure: Failure) -> Iterator[str]:
    setup = failure.setup
    yield ""
    yield f"Seed {failure.seed} broke a promise at step {failure.step}: {failure.name} (invariant {failure.invariant})."
    yield ""
    yield (
        f"The smallest world that breaks it, at step {failure.smallest_step}: seed {setup.seed}, faults "
        f"{', '.join(sorted(setup.faults)) or 'none'}; {setup.publishers} publishers with {setup.calls} calls each, "
        f"{setup.workers} workers, {setup.dispatchers} dispatchers, {len(setup.subscribers)} subscribers."
    )
    yield "step  time    process       what it asked, and the reply"
    yield from failure.trace
    yield f"      ✗  {failure.words}"
