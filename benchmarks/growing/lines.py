"""Line plots as SVG, drawn by ourselves: both axes are logarithmic, so a flat line is a cost that does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from benchmarks.comparing.tables import short
from benchmarks.growing.results import Grown, Line
from benchmarks.growing.tables import AXES

__all__ = ["plot"]

WIDTH: Final = 760
HEIGHT: Final = 360
LEFT: Final = 64
RIGHT: Final = 230
TOP: Final = 44
BOTTOM: Final = 44
LABEL: Final = 15
COLOURS: Final = ("#0b6e4f", "#2f6fb0", "#b0562f", "#7a4fb0")
STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.grid { stroke: #8884; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""


class Scale:
    """Where a value is between two powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low, self._high = floor(log10(min(values))), ceil(log10(max(values)))
        if self._low == self._high:
            self._high += 1
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        return self._start + (log10(value) - self._low) / (self._high - self._low) * (self._end - self._start)

    @property
    def powers(self) -> list[float]:
        return [10.0**power for power in range(self._low, self._high + 1)]


def plot(grown: Grown) -> str:
    points = [point for line in grown.lines for point in line.points]
    across = Scale([point.size for point in points], LEFT, WIDTH - RIGHT)
    up = Scale([value for point in points for value in (point.values.low, point.values.high)], HEIGHT - BOTTOM, TOP)
    title = f"Microseconds an event by {AXES[grown.curve]}, {grown.engine}"
    words = "; ".join(f"{line.name} {'flat' if line.flat else f'{line.growth:.1f} times'}" for line in grown.lines)
    sizes = sorted({point.size for point in points})
    drawn = [
        *(_grid(up(power), short(power)) for power in up.powers),
        *(f'<text x="{across(size):.1f}" y="{HEIGHT - 20}" text-anchor="middle">{size:,}</text>' for size in sizes),
        *_labels(grown.lines, up),
        *(_line(line, colour, across, up) for line, colour in zip(grown.lines, COLOURS, strict=False)),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title}: {words}")}">\n<style>{STYLE}</style>\n'
        f'<text class="title" x="8" y="24">{escape(title)}</text>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _grid(height: float, words: str) -> str:
    return (
        f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 8}" y="{height + 4.5:.1f}" text-anchor="end">{words}</text>'
    )


def _line(line: Line, colour: str, across: Scale, up: Scale) -> str:
    places = [(across(point.size), up(point.values.median)) for point in line.points]
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    spreads = "".join(
        f"M{across(point.size):.1f} {up(point.values.low):.1f}V{up(point.values.high):.1f}" for point in line.points
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
    return (
        f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<path d="{spreads}" stroke="{colour}" stroke-width="1.5" opacity="0.5"/>{dots}'
    )


def _labels(lines: Sequence[Line], up: Scale) -> list[str]:
    """The names at the ends of the lines, moved apart where they would lie on each other."""
    wanted = sorted(
        ((up(line.points[-1].values.median), line, colour) for line, colour in zip(lines, COLOURS, strict=False)),
        key=lambda label: label[0],
    )
    heights = [height for height, *_ in wanted]
    for above, below in pairwise(range(len(heights))):
        heights[below] = max(heights[below], heights[above] + LABEL)
    return [
        f'<text x="{WIDTH - RIGHT + 10}" y="{height + 4.5:.1f}" style="fill: {colour}">{escape(line.name)} '
        f"{short(line.points[-1].values.median)}</text>"
        for height, (_, line, colour) in zip(heights, wanted, strict=True)
    ]
