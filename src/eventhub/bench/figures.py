"""Measured values: samples by round, their spread, ours against the raw limit, and what was aimed at."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

__all__ = ["Figure", "Outcome", "Sample", "Spread", "share", "spread"]

Unit = Literal["events/s", "webhooks/s", "rows/s", "ms", "s"]


class Sample(msgspec.Struct, frozen=True):
    """One measurement: its main value and what else it told, such as the 99th percentile."""

    value: float
    more: dict[str, float] = {}


class Spread(msgspec.Struct, frozen=True):
    """The middle of several rounds, and how far they lie apart."""

    median: float
    low: float
    high: float
    samples: list[float]


class Outcome(msgspec.Struct, frozen=True):
    """A target beside what was reached."""

    target: str
    reached: float
    met: bool


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One workload on one engine. Ratios are taken round by round: both sides saw the same weather."""

    engine: str
    workload: str
    title: str
    unit: Unit
    ours: Spread
    raw: Spread | None
    """What it is compared with; None where there is no such thing."""
    beside: str
    """What that is: mostly the bare driver doing the same row operations."""
    ratio: Spread | None
    """Ours divided by raw."""
    of_drain: Spread | None
    """This drain divided by the plain drain of the same round."""
    more: dict[str, Spread]
    """What else was measured. A name may end in a unit of its own, such as ``p99 ms`` among rates."""
    raw_more: dict[str, Spread]
    note: str
    """Why something is missing, and what to do about it."""
    outcomes: list[Outcome]


def spread(samples: Sequence[float]) -> Spread:
    return Spread(median(samples), min(samples), max(samples), list(samples))


def share(ordered: Sequence[float], part: float) -> float:
    """The value below which this part of the sorted values lies."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]
