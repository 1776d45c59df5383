"""The curves of growth, as tables with their plots."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.growing.results import Grown
from benchmarks.growing.settings import CURVES
from benchmarks.growing.tables import AXES, table

__all__ = ["growth"]


def growth(results: Path) -> str:
    parts = []
    for curve in CURVES:
        for path in sorted(results.glob(f"growth-{curve}-*.json")):
            grown = msgspec.json.decode(path.read_bytes(), type=Grown)
            parts.append(f"**{AXES[curve].capitalize()}, {grown.engine}** ({grown.began[:10]})")
            parts.append(table(grown))
            plot = f"../../benchmarks/results/{path.with_suffix('.svg').name}"
            parts.append(f"![Cost of an event by {AXES[curve]} on {grown.engine}]({plot})")
    return "\n\n".join(parts)
