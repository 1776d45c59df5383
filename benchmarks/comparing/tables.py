"""The results as Markdown: figures, how far ahead or behind Event Hub is, and what was compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.comparing.results import OURS, Figure, Result
from eventhub.bench.figures import Spread

__all__ = ["even", "few_rounds", "markdown", "short"]

BESIDE: Final = ("p99", "from the call", "until settled", "last drain")
"""What is told beside a figure, where it is known."""
ENOUGH: Final = 3
"""Rounds below which a range says nothing."""


def markdown(result: Result) -> str:
    parts = [f"# Compared on {result.engine}", _standing(result), "## Figures", _figures(result)]
    if result.comparisons:
        parts += ["## Event Hub divided by each other system, in the same round", _ratios(result)]
    parts += ["## Systems", _systems(result)]
    said = [*_missing(result), *_troubles(result)]
    if said:
        parts += ["## What is not in the tables", "\n".join(f"- {line}" for line in said)]
    return "\n\n".join(parts) + "\n"


def short(value: float) -> str:
    """A number as people say it: three digits that count."""
    if value >= 1000:  # noqa: PLR2004 - thousands
        return f"{round(value, -len(str(int(value))) + 3):,.0f}"
    return f"{value:.3g}"


def _standing(result: Result) -> str:
    facts, noise = result.facts, result.noise
    settings = ", ".join(f"{name} {value}" for known in facts.engines.values() for name, value in known.items())
    return (
        f"{result.began} to {result.ended}; {facts.cores} cores ({result.processor}), {facts.memory_mb:,} MB, "
        f"{facts.system}; {facts.python}. Database: {settings}. Load of the machine: before {noise.load_before:g}, "
        f"after {noise.load_after:g}, highest {noise.load_highest:g}, this run included. "
        f"{few_rounds(result.settings.rounds)}{result.settings.rounds} rounds: the median, and in parentheses the "
        "lowest and the highest."
    )


def few_rounds(rounds: int) -> str:
    """A warning, when a run was only a trial."""
    return "**Fewer than three rounds: a trial, not a result.** " if rounds < ENOUGH else ""


def even(ratio: Spread) -> bool:
    """Whether one was ahead in some rounds, and the other in others."""
    return ratio.low <= 1.0 <= ratio.high


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figures(result: Result) -> str:
    found = {(one.workload, one.system): one for one in result.figures}
    head = ["", *(f"{one['title']} ({one['unit']})" for one in result.workloads)]
    rows = [
        [_name(system.name), *(_cell(found[one["name"], system.name]) for one in result.workloads)]
        for system in result.systems
    ]
    return _table(head, rows)


def _cell(figure: Figure) -> str:
    if figure.values is None:
        return "failed" if figure.troubles else "–"
    beside = "".join(f", {name} {short(figure.more[name].median)}" for name in BESIDE if name in figure.more)
    return _spread(figure.values) + beside + ("*" if figure.troubles else "")


def _spread(values: Spread) -> str:
    return f"{short(values.median)} ({short(values.low)}–{short(values.high)})"


def _ratios(result: Result) -> str:
    found = {(one.workload, one.system): one.ratio for one in result.comparisons}
    head = ["", *(one["name"] for one in result.workloads)]
    rows = []
    for system in result.systems:
        cells = [found.get((one["name"], system.name)) for one in result.workloads]
        if any(cells):
            rows.append(
                [
                    system.name,
                    *(_ratio(cell) if cell else "–" for cell in cells),
                ]
            )
    return _table(head, rows)


def _ratio(values: Spread) -> str:
    return f"{values.median:.2f} ({values.low:.2f}–{values.high:.2f})" + (", even" if even(values) else "")


def _systems(result: Result) -> str:
    rows = [
        [
            _name(one.name),
            one.kind,
            one.language,
            ", ".join(f"{name} {version}" for name, version in one.versions.items()),
            one.settings,
        ]
        for one in result.systems
    ]
    return _table(["", "kind", "language", "versions", "settings"], rows)


def _missing(result: Result) -> list[str]:
    return [f"{one.system}, {one.workload}: {one.missing}." for one in result.figures if one.missing]


def _troubles(result: Result) -> list[str]:
    return [f"{one.system}, {one.workload} failed: {said}" for one in result.figures for said in one.troubles]


def _name(system: str) -> str:
    return f"**{system}**" if system == OURS else system
