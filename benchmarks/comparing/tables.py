"""The results as Markdown: figures, how far ahead or behind Event Hub is, and what was compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.comparing.results import OURS, Figure, Result
from eventhub.bench.figures import Spread

__all__ = ["markdown", "short"]


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
        f"{result.settings.rounds} rounds: the median, and in parentheses the lowest and the highest."
    )


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
    p99 = figure.more.get("p99")
    return _spread(figure.values) + (f", p99 {short(p99.median)}" if p99 else "") + ("*" if figure.troubles else "")


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
                    *(f"{cell.median:.2f} ({cell.low:.2f}–{cell.high:.2f})" if cell else "–" for cell in cells),
                ]
            )
    return _table(head, rows)


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
