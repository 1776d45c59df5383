"""What is compared, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

__all__ = [
    "ENGINES",
    "FACES",
    "FACE_WORKLOADS",
    "SUBJECTS",
    "WORKLOADS",
    "Engine",
    "Face",
    "Settings",
    "Subject",
    "check_names",
    "chosen",
    "workloads_of",
]

Engine = Literal["postgres", "sqlite"]
ENGINES: Final[tuple[Engine, ...]] = ("postgres", "sqlite")
Face = Literal["spark", "webhooks"]
FACES: Final[tuple[Face, ...]] = ("webhooks", "spark")  # Spark last: its Java stays until the end
Subject = Literal["postgres", "sqlite", "spark", "webhooks"]
"""What a run is about: queues on an engine, or one of the other faces."""
SUBJECTS: Final[tuple[Subject, ...]] = (*ENGINES, *FACES)
WORKLOADS: Final = (
    "publish-1",
    "publish-16",
    "publish-batch",
    "drain",
    "drain-backlog",
    "drain-free",
    "drain-held",
    "sustained",
    "ordered",
    "latency",
    "latency-same-process",
    "memory",
)
FACE_WORKLOADS: Final[dict[Face, tuple[str, ...]]] = {
    "spark": ("pipeline-copy-1", "pipeline-copy-2", "pipeline-read-1", "pipeline-read-2"),
    "webhooks": ("webhook-rate", "webhook-rate-ordered"),
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run; what the README says of each option."""

    rounds: int = 5
    events: int = 50_000
    backlog: int = 1_000_000
    held_seconds: float = 60.0
    drain_seconds: float = 60.0
    sustained_seconds: float = 60.0
    latencies: int = 200
    keys: int = 100
    history: int = 1_000_000
    idle_seconds: float = 3.0
    seed: int = 1
    only: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rounds", "events", "latencies", "keys", "history"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more.")
        for name in ("held_seconds", "drain_seconds", "idle_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give more than 0.")
        if self.backlog < 0:
            raise ValueError(f"backlog is {self.backlog}; give 0 to leave that workload out, or more.")
        if self.sustained_seconds < 0:
            raise ValueError(f"sustained_seconds is {self.sustained_seconds}; give 0 to leave it out, or more.")


def workloads_of(subject: Subject, settings: Settings) -> tuple[str, ...]:
    """The workloads that were chosen of those that this subject can have; perhaps none."""
    if subject in ("spark", "webhooks"):
        return chosen(settings.only, FACE_WORKLOADS[subject])
    left_out = {"drain-backlog"} if settings.backlog == 0 else set()
    left_out |= {"sustained"} if settings.sustained_seconds == 0 else set()
    left_out |= {"drain-free", "drain-held"} if subject == "sqlite" else set()
    return chosen(settings.only, [name for name in WORKLOADS if name not in left_out])


def chosen(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The names that were asked for by name or by beginning, all when none was; ``publish`` means three workloads."""
    return tuple(name for name in names if not wanted or any(_means(one, name) for one in wanted))


def check_names(wanted: Sequence[str], names: Sequence[str], what: str) -> None:
    """Whoever asked for something that nobody has is told what there is."""
    unknown = [one for one in wanted if not any(_means(one, name) for name in names)]
    if unknown:
        raise ValueError(f"There is no {what} {', '.join(unknown)}; there are {', '.join(dict.fromkeys(names))}.")


def _means(one: str, name: str) -> bool:
    return name == one or name.startswith(f"{one}-")
