"""What to measure, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from eventhub.errors import SettingsError

__all__ = ["BATCH", "CLAIM", "PUBLISHERS", "TYPE", "WORKLOADS", "BenchSettings", "Engine", "chosen"]

Engine = Literal["sqlite", "postgres"]

WORKLOADS: Final = (
    "publish-1",
    "publish-16",
    "publish-batch",
    "drain",
    "drain-backlog",
    "drain-held",
    "latency",
    "latency-other-process",
    "dlq-page",
    "recovery",
)
BATCH: Final = 1000
"""Events in one call of publish_many."""
CLAIM: Final = 500
"""Events in one claim, the default of EventManager."""
PUBLISHERS: Final = 16
SMALLEST_BACKLOG: Final = 10 * CLAIM
"""A manager that is stopped in time has completed a little more than it was meant to."""
TYPE: Final = "bench.event"


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run. ``backlog`` events wait behind those that are drained; 0 leaves that workload out."""

    events: int = 50_000
    backlog: int = 0
    held_snapshot: bool = False
    seconds: float = 60.0
    """The longest drain under a held snapshot; the rate is judged by what was drained until then."""
    rounds: int = 3
    latencies: int = 300
    dead: int = 10_000
    stuck: int = 100
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("events", "rounds", "latencies", "dead", "stuck"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; give 1 or more.")
        if 0 != self.backlog < SMALLEST_BACKLOG:
            raise SettingsError(f"backlog is {self.backlog}; give 0 for none, or {SMALLEST_BACKLOG:,} and more.")
        if self.seconds <= 0:
            raise SettingsError(f"seconds is {self.seconds}; give more than 0.")
        chosen(self.only)
        if "drain-backlog" in self.only and not self.backlog:
            raise SettingsError("drain-backlog needs a backlog; give one, such as --backlog 1000000.")
        if "drain-held" in self.only and not self.held_snapshot:
            raise SettingsError("drain-held needs --held-snapshot.")


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The workloads that names or their beginnings stand for, all when there are none: ``publish`` means three."""
    found = {name: [full for full in WORKLOADS if full == name or full.startswith(f"{name}-")] for name in only}
    unknown = [name for name, fulls in found.items() if not fulls]
    if unknown:
        raise SettingsError(f"There is no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}.")
    wanted = {full for fulls in found.values() for full in fulls} if only else set(WORKLOADS)
    if wanted & {"drain-backlog", "drain-held"}:
        wanted.add("drain")  # what they are compared with
    return tuple(name for name in WORKLOADS if name in wanted)
