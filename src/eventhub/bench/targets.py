"""What the project aims at on a quiet machine of two cores; printed beside the figures, never instead of them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from eventhub.bench.figures import Outcome, Spread

__all__ = ["judge"]

Measure = Literal["ours", "ratio", "of_drain"]


class Target(msgspec.Struct, frozen=True):
    measure: Measure
    limit: float
    text: str
    least: bool = True
    """Whether the limit is the least that will do, or the most."""


def _rate(limit: int) -> Target:
    return Target("ours", limit, f"≥ {limit:,}/s")


def _most(limit: float, text: str) -> Target:
    return Target("ours", limit, text, least=False)


TARGETS: Final[dict[tuple[str, str], tuple[Target, ...]]] = {
    ("postgres", "publish-16"): (_rate(8_000),),
    ("postgres", "publish-batch"): (_rate(50_000),),
    ("postgres", "drain"): (_rate(30_000), Target("ratio", 0.6, "≥ 0.6 of raw")),
    ("postgres", "drain-backlog"): (Target("of_drain", 0.75, "≥ 0.75 of drain"),),
    ("postgres", "drain-held"): (Target("of_drain", 0.7, "≥ 0.7 of drain"),),
    ("postgres", "latency"): (_most(2.0, "p50 ≤ 2 ms"),),
    ("postgres", "latency-other-process"): (_most(2.0, "p50 ≤ 2 ms"),),
    ("sqlite", "publish-16"): (_rate(20_000),),
    ("sqlite", "publish-batch"): (_rate(120_000),),
    ("sqlite", "drain"): (_rate(40_000),),
    ("sqlite", "dlq-page"): (_most(10.0, "< 10 ms"),),
    ("sqlite", "recovery"): (_most(100.0, "< 100 ms"),),
}


def judge(engine: str, workload: str, *, ours: Spread, ratio: Spread | None, of_drain: Spread | None) -> list[Outcome]:
    """The targets of a workload, each with the median that was reached."""
    measured = {"ours": ours, "ratio": ratio, "of_drain": of_drain}
    outcomes = []
    for target in TARGETS.get((engine, workload), ()):
        found = measured[target.measure]
        if found is not None:
            met = found.median >= target.limit if target.least else found.median <= target.limit
            outcomes.append(Outcome(target.text, found.median, met))
    return outcomes
