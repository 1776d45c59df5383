"""What is compared, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

__all__ = ["ENGINES", "WORKLOADS", "Engine", "Settings", "chosen"]

Engine = Literal["postgres", "sqlite"]
ENGINES: Final[tuple[Engine, ...]] = ("postgres", "sqlite")
WORKLOADS: Final = (
    "publish-1",
    "publish-16",
    "publish-batch",
    "drain",
    "drain-backlog",
    "drain-held",
    "ordered",
    "latency",
    "latency-same-process",
    "memory",
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run; what the README says of each option."""

    rounds: int = 5
    events: int = 50_000
    backlog: int = 1_000_000
    held_seconds: float = 60.0
    drain_seconds: float = 60.0
    latencies: int = 200
    keys: int = 100
    idle_seconds: float = 3.0
    only: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rounds", "events", "latencies", "keys"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more.")
        for name in ("held_seconds", "drain_seconds", "idle_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give more than 0.")
        if self.backlog < 0:
            raise ValueError(f"backlog is {self.backlog}; give 0 to leave that workload out, or more.")


def chosen(wanted: Sequence[str], names: Sequence[str], what: str) -> tuple[str, ...]:
    """The names that were asked for by name or by beginning, all when none was; ``publish`` means three workloads."""
    found = [name for name in names if not wanted or any(name == one or name.startswith(f"{one}-") for one in wanted)]
    unknown = [one for one in wanted if not any(name == one or name.startswith(f"{one}-") for name in names)]
    if unknown:
        raise ValueError(f"There is no {what} {', '.join(unknown)}; there are {', '.join(names)}.")
    return tuple(found)
