"""A curve as Markdown: the cost at every size, and whether it is flat."""

from __future__ import annotations

from typing import Final

from benchmarks.comparing.tables import short
from benchmarks.growing.results import FLAT, Grown, Line
from benchmarks.growing.settings import Curve

__all__ = ["AXES", "markdown", "table"]

AXES: Final[dict[Curve, str]] = {
    "backlog": "events waiting",
    "subscribers": "subscribers",
    "keys": "ordering keys",
    "tags": "sets of tags",
}


def markdown(grown: Grown) -> str:
    facts, noise = grown.facts, grown.noise
    settings = ", ".join(f"{name} {value}" for name, value in facts.engines[grown.engine].items())
    standing = (
        f"{grown.began} to {grown.ended}; {facts.cores} cores ({grown.processor}), {facts.memory_mb:,} MB, "
        f"{facts.system}; {facts.python}. Database: {settings}. Load of the machine: before {noise.load_before:g}, "
        f"after {noise.load_after:g}, highest {noise.load_highest:g}, this run included."
    )
    meaning = (
        f"Microseconds an event, or a message; {grown.settings.walks} walks there and back: the median, and in "
        f"parentheses the lowest and the highest. A line is flat when its last point costs at most {FLAT:g} times its "
        "first. *again* is what the ways back cost, by the ways there, where they differ most."
    )
    title = f"# Growth with {AXES[grown.curve]}, {grown.engine}"
    return "\n\n".join([title, standing, meaning, table(grown)]) + "\n"


def table(grown: Grown) -> str:
    sizes = [point.size for point in grown.lines[0].points]
    head = [AXES[grown.curve], *(f"{size:,}" for size in sizes), "last by first", "again"]
    rows = [head, ["---"] * len(head), *(_row(one) for one in grown.lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(line: Line) -> list[str]:
    cells = [
        f"{short(point.values.median)} ({short(point.values.low)}–{short(point.values.high)})" for point in line.points
    ]
    verdict = f"{line.growth:.2f}, {'flat' if line.flat else '**not flat**'}"
    drift = max((point.again for point in line.points), key=lambda again: max(again, 1 / again))
    return [f"{line.name}, µs", *cells, verdict, f"{drift:.2f}"]
