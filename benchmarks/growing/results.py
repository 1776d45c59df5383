"""A curve: by what is done, the cost of an event at every size, and whether it is flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.comparing.results import Noise
from benchmarks.growing.settings import Curve, Settings
from eventhub.bench.figures import Spread, spread
from eventhub.bench.machine import Facts
from eventhub.bench.settings import Engine

__all__ = ["FLAT", "Grown", "Line", "Point", "line"]

FLAT: Final = 1.5
"""A curve is flat when its last point costs at most so many times its first."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds an event at one size; ``again`` is what it cost on the ways back, by the ways there."""

    size: int
    values: Spread
    again: float


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    points: list[Point]
    growth: float
    """The last point by the first."""
    flat: bool


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    curve: Curve
    engine: Engine
    began: str
    ended: str
    processor: str
    facts: Facts
    settings: Settings
    noise: Noise
    lines: list[Line]


def line(name: str, there: Mapping[int, Sequence[float]], back: Mapping[int, Sequence[float]]) -> Line:
    """Put the ways together: ``there`` from small to large, ``back`` from large to small."""
    points = [
        Point(
            size=size,
            values=spread([*there[size], *back.get(size, ())]),
            again=spread(back[size]).median / spread(there[size]).median if back.get(size) else 1.0,
        )
        for size in sorted(there)
    ]
    growth = points[-1].values.median / points[0].values.median
    return Line(name=name, points=points, growth=growth, flat=growth <= FLAT)
