"""Plots as SVG, drawn by ourselves: for each workload a bar for every system, with the spread of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from benchmarks.comparing.results import OURS, Figure, Result
from benchmarks.comparing.tables import short
from eventhub.bench.figures import Spread

__all__ = ["plot", "plots"]

WIDTH: Final = 760
LEFT: Final = 150
RIGHT: Final = 170
TOP: Final = 44
ROW: Final = 26
BAR: Final = 16
STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.value { font-variant-numeric: tabular-nums }
.ours { fill: #0b6e4f } .peer { fill: #6b8cae } .limit { fill: #c9c9c9 }
.spread { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .spread { stroke: #e6edf3 } .ours { fill: #2fbf8f } }
"""


def plots(result: Result) -> dict[str, str]:
    """An SVG document for each workload, by its name."""
    kinds = {one.name: one.kind for one in result.systems}
    found = {}
    for one in result.workloads:
        shown = [
            (figure, kinds[figure.system], figure.values)
            for figure in result.figures
            if figure.workload == one["name"] and figure.values is not None
        ]
        if shown:
            best_first = sorted(shown, key=lambda bar: bar[2].median, reverse=one["unit"].endswith("/s"))
            found[one["name"]] = plot(f"{one['title']}, {one['unit']}, {result.engine}", best_first)
    return found


def plot(title: str, bars: Sequence[tuple[Figure, str, Spread]]) -> str:
    height = TOP + ROW * len(bars) + 8
    highest = max(values.high for _, _, values in bars) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / highest
    drawn = [_bar(place, figure.system, kind, values, scale) for place, (figure, kind, values) in enumerate(bars)]
    words = "; ".join(f"{figure.system} {short(values.median)}" for figure, _, values in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(f"{title}: {words}")}">\n<style>{STYLE}</style>\n'
        f'<text class="title" x="8" y="24">{escape(title)}</text>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _bar(place: int, system: str, kind: str, values: Spread, scale: float) -> str:
    top = TOP + ROW * place
    middle = top + BAR / 2
    low, high = LEFT + scale * values.low, LEFT + scale * values.high
    weight = ' font-weight="600"' if system == OURS else ""
    return (
        f'<text x="{LEFT - 8}" y="{middle + 4.5:g}" text-anchor="end"{weight}>{escape(system)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{scale * values.median:.1f}" height="{BAR}" rx="2"/>'
        f'<path class="spread" d="M{low:.1f} {middle:g}H{high:.1f}'
        f'M{low:.1f} {middle - 4:g}v8M{high:.1f} {middle - 4:g}v8"/>'
        f'<text class="value" x="{high + 8:.1f}" y="{middle + 4.5:g}">{short(values.median)}'
        f" ({short(values.low)}–{short(values.high)})</text>"
    )
