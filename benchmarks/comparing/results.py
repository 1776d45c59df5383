"""What came of a run: figures by workload and system, and how far ahead Event Hub is, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.comparing.settings import Settings, Subject
from benchmarks.comparing.systems import Kind
from eventhub.bench.figures import Sample, Spread, spread
from eventhub.bench.machine import Facts

__all__ = ["OURS", "Comparison", "Figure", "Noise", "Result", "SystemFacts", "compare", "figure"]

OURS = "eventhub"


class SystemFacts(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    language: str
    settings: str
    versions: dict[str, str]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One system under one workload. Without ``values``, ``missing`` or ``troubles`` say why."""

    workload: str
    system: str
    values: Spread | None = None
    more: dict[str, Spread] = {}
    missing: str = ""
    troubles: list[str] = []


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Event Hub against one other system: above 1 is better for rates, below 1 for waits and memory."""

    workload: str
    system: str
    ratio: Spread


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How busy the machine was: programs that wanted a core, averaged over a minute. Ours are among the highest."""

    load_before: float
    load_after: float
    load_highest: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    engine: Subject
    """Which of the runs: a queue's engine, or ``spark``, or ``webhooks``."""
    began: str
    ended: str
    processor: str
    facts: Facts
    settings: Settings
    noise: Noise
    systems: list[SystemFacts]
    workloads: list[dict[str, str]]
    figures: list[Figure]
    comparisons: list[Comparison]


def figure(workload: str, system: str, samples: Sequence[Sample | None], missing: str, troubles: list[str]) -> Figure:
    """Put the rounds of one system together; None is a round that failed."""
    good = [sample for sample in samples if sample is not None]
    more: dict[str, Any] = {}
    if good:
        more = {
            name: spread([sample.more[name] for sample in good])
            for name in good[0].more
            if all(name in sample.more for sample in good)
        }
    values = spread([sample.value for sample in good]) if good else None
    return Figure(
        workload=workload, system=system, values=values, more=more, missing=missing, troubles=sorted(set(troubles))
    )


def compare(workload: str, rounds: Mapping[str, Sequence[Sample | None]]) -> list[Comparison]:
    """Ours divided by each other's of the same round: both saw the same weather."""
    mine = rounds.get(OURS, ())
    found = []
    for system, others in rounds.items():
        ratios = [a.value / b.value for a, b in zip(mine, others, strict=False) if a and b and b.value > 0]
        if system != OURS and ratios:
            found.append(Comparison(workload=workload, system=system, ratio=spread(ratios)))
    return found
