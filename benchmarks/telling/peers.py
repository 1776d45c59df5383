"""What the comparison found, as tables: Event Hub beside the best of the others, all of them, and events a day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.comparing.results import OURS, Figure, Result
from benchmarks.comparing.settings import SUBJECTS, Subject
from benchmarks.comparing.tables import short

__all__ = ["ahead", "days", "every", "read", "standing", "table"]

UNEQUAL: Final = frozenset({"litequeue-normal"})
"""Does not wait for the disk: shown among all, and never the best."""
DAILY: Final = ("publish-16", "publish-batch", "drain", "ordered", "webhook-rate", "webhook-rate-ordered")
DAY: Final = 86_400
MILLION: Final = 1e6


def read(results: Path, subject: Subject) -> Result | None:
    path = results / f"{subject}.json"
    return msgspec.json.decode(path.read_bytes(), type=Result) if path.exists() else None


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def standing(results: Path) -> str:
    """When and on what each of them was measured."""
    lines = []
    for subject in SUBJECTS:
        if (result := read(results, subject)) is not None:
            facts, noise = result.facts, result.noise
            known = ", ".join(f"{name} {value}" for one in facts.engines.values() for name, value in one.items())
            lines.append(
                f"- {subject}: {result.began[:10]}, version {facts.eventhub}, {result.settings.rounds} rounds; "
                f"{facts.cores} cores ({result.processor}), {facts.memory_mb // 1024} GB, {facts.python}; {known}; "
                f"load of the machine {noise.load_before:g} before"
            )
    return "\n".join(lines)


def ahead(subject: Subject) -> Callable[[Path], str]:
    """Event Hub beside the best Python peer, the best of any language, and the limit; ratios round by round."""

    def make(results: Path) -> str:
        result = read(results, subject)
        if result is None:
            return ""
        head = ["", "Event Hub", "best in Python", "best of all", "the bare driver"]
        return table(head, [row for one in result.workloads if (row := _beside(result, one))])

    return make


def _beside(result: Result, workload: dict[str, str]) -> list[str]:
    figures = _figures(result, workload["name"])
    if OURS not in figures:
        return []
    kinds = {one.name: one for one in result.systems}
    peers = [name for name in figures if kinds[name].kind == "peer" and name not in UNEQUAL]
    python = [name for name in peers if kinds[name].language == "Python"]
    limit = [name for name in figures if name == "raw"]
    return [
        f"{workload['title']}, {workload['unit']}",
        f"**{_value(figures[OURS])}**",
        *(_best(result, workload, figures, names) for names in (python, peers, limit)),
    ]


def _best(result: Result, workload: dict[str, str], figures: dict[str, Figure], names: list[str]) -> str:
    """The best of these, and Event Hub divided by it."""
    if not names:
        return "–"
    pick = max if workload["unit"].endswith("/s") else min
    best = pick(names, key=lambda name: _median(figures[name]))
    ratios = {(one.workload, one.system): one.ratio.median for one in result.comparisons}
    times = ratios.get((workload["name"], best))
    who = "" if best == "raw" else f"{best} "
    return f"{who}{_value(figures[best])}" + (f" (×{times:.2f})" if times is not None else "")


def every(subject: Subject) -> Callable[[Path], str]:
    """All systems, the medians; the files beside the JSON have the spread."""

    def make(results: Path) -> str:
        result = read(results, subject)
        if result is None:
            return ""
        found = {(one.workload, one.system): one for one in result.figures}
        head = ["", *(f"{one['name']}, {one['unit']}" for one in result.workloads)]
        rows = [
            [
                f"**{system.name}**" if system.name == OURS else system.name,
                *(_cell(found[one["name"], system.name]) for one in result.workloads),
            ]
            for system in result.systems
        ]
        return table(head, rows)

    return make


def days(results: Path) -> str:
    """What the rates are in a day."""
    rows = []
    for subject in SUBJECTS:
        result = read(results, subject)
        if result is None:
            continue
        titles = {one["name"]: one["title"] for one in result.workloads}
        for name in DAILY:
            figure = _figures(result, name).get(OURS) if name in titles else None
            if figure is not None:
                rate = _median(figure)
                rows.append([f"{subject}: {titles[name]}", f"{short(rate)}/s", f"{rate * DAY / MILLION:,.0f} million"])
    return table(["", "a second", "a day"], rows) if rows else ""


def _figures(result: Result, workload: str) -> dict[str, Figure]:
    return {one.system: one for one in result.figures if one.workload == workload and one.values is not None}


def _median(figure: Figure) -> float:
    assert figure.values is not None
    return figure.values.median


def _value(figure: Figure) -> str:
    return short(_median(figure))


def _cell(figure: Figure) -> str:
    if figure.values is None:
        return "failed" if figure.troubles else "–"
    return _value(figure) + ("*" if figure.troubles else "")
