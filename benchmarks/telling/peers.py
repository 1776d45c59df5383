"""What the comparison found, as tables: Event Hub on both engines, beside the best of the others, all of them, under a
held snapshot, and events a day.

Ratios come with their range over the rounds; where that includes 1 nobody is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.comparing.results import OURS, Figure, Result
from benchmarks.comparing.settings import ENGINES, SUBJECTS, Subject
from benchmarks.comparing.tables import even, few_rounds, short
from eventhub.bench.figures import Spread, spread

__all__ = ["ahead", "both", "days", "divided", "every", "held", "read", "standing", "table", "times"]

UNEQUAL: Final = frozenset({"litequeue-normal"})
"""Does not wait for the disk: shown among all, and never the best."""
LASTING: Final = "sustained"
"""The only rate that is told for a day: others are bursts."""
ALSO: Final = {
    "until settled": "the same, until nothing is left in its tables",
    "from the call": "the same, from the call of publish",
}
"""What is told of a workload in a row of its own, where it is known."""
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


Values = dict[str, Spread]
"""Of a workload, by system."""


def ahead(subject: Subject) -> Callable[[Path], str]:
    """Event Hub beside the best Python peer, the best of any language, and the limit; ratios round by round."""

    def make(results: Path) -> str:
        result = read(results, subject)
        if result is None:
            return ""
        head = ["", "Event Hub", "best in Python", "best of all", "the bare driver"]
        rows = [row for workload in result.workloads for row in _rows(result, workload)]
        return f"{_rounds(result)}\n\n{table(head, rows)}"

    return make


def _rounds(result: Result) -> str:
    rounds = result.settings.rounds
    return f"{few_rounds(rounds)}Rounds: {rounds}."


def _rows(result: Result, workload: dict[str, str]) -> list[list[str]]:
    figures = _figures(result, workload["name"])
    values = {name: figure.values for name, figure in figures.items() if figure.values is not None}
    ratios = {one.system: one.ratio for one in result.comparisons if one.workload == workload["name"]}
    rows = [_beside(result, workload["title"], workload["unit"], values, ratios)]
    for name, title in ALSO.items():
        also = {system: figure.more[name] for system, figure in figures.items() if name in figure.more}
        rows.append(_beside(result, title, workload["unit"], also, _against_ours(also)))
    return [row for row in rows if row]


def _beside(result: Result, title: str, unit: str, values: Values, ratios: Values) -> list[str]:
    if OURS not in values:
        return []
    kinds = {one.name: one for one in result.systems}
    peers = [name for name in values if kinds[name].kind == "peer" and name not in UNEQUAL]
    python = [name for name in peers if kinds[name].language == "Python"]
    limit = [name for name in values if name == "raw"]
    return [
        f"{title}, {unit}",
        f"**{short(values[OURS].median)}**",
        *(_best(unit, values, ratios, names) for names in (python, peers, limit)),
    ]


def _best(unit: str, values: Values, ratios: Values, names: list[str]) -> str:
    """The best of these, and Event Hub divided by it."""
    if not names:
        return "–"
    pick = max if unit.endswith("/s") else min
    best = pick(names, key=lambda name: values[name].median)
    who = "" if best == "raw" else f"{best} "
    return f"{who}{short(values[best].median)}" + (f", {times(ratios[best])}" if best in ratios else "")


def times(ratio: Spread) -> str:
    """A ratio with its range over the rounds; nobody is ahead who is it in some of them only."""
    words = f"×{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"
    return f"even, {words}" if even(ratio) else words


def _against_ours(values: Values) -> Values:
    if OURS not in values:
        return {}
    found = {name: divided(values[OURS], value) for name, value in values.items() if name != OURS}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def divided(one: Spread, other: Spread) -> Spread | None:
    """Round by round; None when one of them failed in some round, for nobody knows in which."""
    if len(one.samples) != len(other.samples) or not all(other.samples):
        return None
    return spread([a / b for a, b in zip(one.samples, other.samples, strict=True)])


def held(results: Path) -> str:
    """What each system keeps of its drain while another session holds a snapshot."""
    result = read(results, "postgres")
    free, under = ({}, {}) if result is None else (_figures(result, f"drain-{name}") for name in ("free", "held"))
    rows = [_held_row(system, free[system], under[system]) for system in free if system in under]
    if result is None or not rows:
        return ""
    seconds = f"{result.settings.held_seconds:g} s"
    head = ["", f"free for {seconds}", "its last drain", f"held for {seconds}", "its last drain", "held / free",
            "last held / last free"]  # fmt: skip
    return f"{_rounds(result)} Events a second.\n\n{table(head, rows)}"


def _held_row(system: str, free: Figure, under: Figure) -> list[str]:
    assert free.values is not None
    assert under.values is not None
    lasts = free.more["last drain"], under.more["last drain"]
    shown = (free.values, lasts[0], under.values, lasts[1])
    ratios = (divided(under.values, free.values), divided(lasts[1], lasts[0]))
    return [
        _name(system),
        *(short(values.median) for values in shown),
        *("–" if one is None else f"{one.median:.2f} ({one.low:.2f}–{one.high:.2f})" for one in ratios),
    ]


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
                _name(system.name),
                *(_cell(found[one["name"], system.name]) for one in result.workloads),
            ]
            for system in result.systems
        ]
        return table(head, rows)

    return make


def both(results: Path) -> str:
    """Event Hub alone: what was measured in the same way on both engines."""
    found = [one for engine in ENGINES if (one := read(results, engine)) is not None]
    if len(found) < len(ENGINES):
        return ""
    first, second = map(_ours, found)
    rows = [[title, first[title], second[title]] for title in first if title in second]
    return table(["", *(result.engine for result in found)], rows)


def _ours(result: Result) -> dict[str, str]:
    """What Event Hub reached, by workload."""
    figures = {one.workload: one for one in result.figures if one.system == OURS and one.values is not None}
    return {
        f"{one['title']}, {one['unit']}": short(_median(figures[one["name"]]))
        for one in result.workloads
        if one["name"] in figures
    }


def days(results: Path) -> str:
    """What can go on for ever, in a day."""
    rows = []
    for subject in SUBJECTS:
        result = read(results, subject)
        titles = {} if result is None else {one["name"]: one["title"] for one in result.workloads}
        figure = _figures(result, LASTING).get(OURS) if result is not None else None
        if figure is not None:
            rate = _median(figure)
            rows.append([f"{subject}: {titles[LASTING]}", f"{short(rate)}/s", f"{rate * DAY / MILLION:,.0f} million"])
    return table(["", "a second", "a day"], rows) if rows else ""


def _figures(result: Result, workload: str) -> dict[str, Figure]:
    return {one.system: one for one in result.figures if one.workload == workload and one.values is not None}


def _median(figure: Figure) -> float:
    assert figure.values is not None
    return figure.values.median


def _name(system: str) -> str:
    return f"**{system}**" if system == OURS else system


def _cell(figure: Figure) -> str:
    if figure.values is None:
        return "failed" if figure.troubles else "–"
    return short(_median(figure)) + ("*" if figure.troubles else "")
