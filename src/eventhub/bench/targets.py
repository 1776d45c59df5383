"""What the project aims at on a quiet machine of two cores; printed beside the figures, never instead of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from eventhub.bench.figures import Outcome, Spread

__all__ = ["judge"]


class Target(msgspec.Struct, frozen=True):
    measure: str
    """``ours``, ``ratio``, ``of_drain``, or the name of something else that was measured."""
    limit: float
    text: str
    least: bool = True
    """Whether the limit is the least that will do, or the most."""


def _rate(limit: int) -> Target:
    return Target("ours", limit, f"≥ {limit:,}/s")


def _most(limit: float, text: str) -> Target:
    return Target("ours", limit, text, least=False)


def _share(limit: float) -> Target:
    return Target("ratio", limit, f"≥ {limit:.2f} of without")


WAITING: Final = (
    Target("p99", 100.0, "p99 < 100 ms", least=False),
    Target("server's memory MB", 300.0, "< 300 MB", least=False),
)
BY_TAG: Final = (Target("ratio", 2.0, "≤ 2× without tags", least=False),)

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
    ("postgres", "http-publish"): (
        _rate(8_000),
        Target("p99 ms", 30.0, "p99 < 30 ms", least=False),
        Target("ratio", 2.0, "≥ 2× FastAPI"),
    ),
    ("postgres", "http-publish-batch"): (_rate(30_000),),
    ("postgres", "http-work"): (_rate(3_000),),
    ("postgres", "http-work-batch"): (_rate(12_000),),
    ("postgres", "webhook-rate"): (_rate(2_500),),
    ("postgres", "webhook-rate-ordered"): (_rate(2_500),),
    ("postgres", "webhook-idle"): (_most(25.0, "p50 < 25 ms"),),
    ("postgres", "pipeline-copy-1"): (Target("ratio", 2.0, "≥ 2× JDBC"),),
    ("postgres", "pipeline-copy-2"): (_rate(220_000), Target("ratio", 1.0, "ahead of JDBC")),
    ("postgres", "pipeline-first"): (_most(90.0, "≤ 90 s"),),
    ("postgres", "pipeline-again"): (_most(10.0, "≤ 10 s"),),
    ("postgres", "pipeline-rollup"): (_most(6.0, "≤ 6 s"),),
    ("postgres", "pipeline-publish"): (_rate(40_000),),
    **dict.fromkeys((("postgres", "webhook-hung"), ("sqlite", "webhook-hung")), (_share(0.95),)),
    **dict.fromkeys((("postgres", "webhook-hot-key"), ("sqlite", "webhook-hot-key")), (_share(0.9),)),
    **dict.fromkeys((("postgres", "webhook-publish"), ("sqlite", "webhook-publish")), (_share(0.95),)),
    **dict.fromkeys((("postgres", "http-long-poll"), ("sqlite", "http-long-poll")), WAITING),
    **dict.fromkeys((("postgres", "claim-by-tag"), ("sqlite", "claim-by-tag")), BY_TAG),
}


def judge(
    engine: str,
    workload: str,
    *,
    ours: Spread,
    ratio: Spread | None,
    of_drain: Spread | None,
    more: Mapping[str, Spread],
) -> list[Outcome]:
    """The targets of a workload, each with the median that was reached."""
    measured = {**more, "ours": ours, "ratio": ratio, "of_drain": of_drain}
    outcomes = []
    for target in TARGETS.get((engine, workload), ()):
        found = measured.get(target.measure)
        if found is not None:
            met = found.median >= target.limit if target.least else found.median <= target.limit
            outcomes.append(Outcome(target.text, found.median, met))
    return outcomes
