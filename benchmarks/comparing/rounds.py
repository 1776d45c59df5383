"""Rounds: in each, every workload is done by all who take part, in turn; what they made becomes a result."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.comparing.conversation import Missing, Trouble
from benchmarks.comparing.results import Comparison, Figure, Noise, Result, SystemFacts, compare, figure
from benchmarks.comparing.settings import Settings, Subject
from eventhub.bench.figures import Sample
from eventhub.bench.machine import Facts

__all__ = ["Planned", "Rounds", "Tell", "in_turn", "load", "now", "processor"]

Key = tuple[str, str]
Tell = Callable[[str], None]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, and how it is measured for the system of a name."""

    name: str
    title: str
    unit: str
    measure: Callable[[str], Awaitable[Sample]]


class Rounds:
    """Collects the samples of all rounds."""

    def __init__(self, settings: Settings, systems: Sequence[str], plan: Sequence[Planned], tell: Tell) -> None:
        self._settings = settings
        self._systems = systems
        self._plan = plan
        self._tell = tell
        self._began = now()
        self.samples: dict[Key, list[Sample | None]] = {(w.name, name): [] for w in plan for name in systems}
        self.missing: dict[Key, str] = {}
        self.troubles: dict[Key, list[str]] = {key: [] for key in self.samples}
        self.loads = [load()]

    async def go(self) -> AsyncIterator[None]:
        """Stops for a moment after each round."""
        rounds = self._settings.rounds
        for number in range(1, rounds + 1):
            for workload in self._plan:
                for system in in_turn(self._systems, self._settings.seed, workload.name, number):
                    await self._measure(f"round {number}/{rounds}", workload, system)
            yield

    async def _measure(self, when: str, workload: Planned, system: str) -> None:
        key = (workload.name, system)
        if key in self.missing:
            return
        sample: Sample | None = None
        try:
            sample = await workload.measure(system)
            said = f"{sample.value:,.1f} {workload.unit}"
        except Missing as why:
            self.missing[key] = said = str(why)
        except Trouble as trouble:
            self.troubles[key].append(str(trouble))
            said = f"failed: {trouble}"
        self.samples[key].append(sample)
        self.loads.append(load())
        self._tell(f"{when}  {workload.name:<21}{system:<17}{said}")

    def _figures(self) -> tuple[list[Figure], list[Comparison]]:
        """What the rounds until now make."""
        figures = [
            figure(workload, system, samples, self.missing.get((workload, system), ""), self.troubles[workload, system])
            for (workload, system), samples in self.samples.items()
        ]
        by_workload = {w.name: {name: self.samples[w.name, name] for name in self._systems} for w in self._plan}
        return figures, [one for workload, rounds in by_workload.items() for one in compare(workload, rounds)]

    def result(self, subject: Subject, facts: Facts, systems: list[SystemFacts]) -> Result:
        figures, comparisons = self._figures()
        return Result(
            engine=subject,
            began=self._began,
            ended=now(),
            processor=processor(),
            facts=facts,
            settings=self._settings,
            noise=Noise(load_before=self.loads[0], load_after=load(), load_highest=max(self.loads)),
            systems=systems,
            workloads=[{"name": w.name, "title": w.title, "unit": w.unit} for w in self._plan],
            figures=figures,
            comparisons=comparisons,
        )


def in_turn(systems: Sequence[str], seed: int, workload: str, number: int) -> list[str]:
    """An order of its own for each workload and round, always the same for a seed.

    Nobody is always the first, or comes after the same other who left the disk busy; a mere rotation keeps neighbours.
    """
    order = list(systems)
    random.Random(f"{seed} {workload} {number}").shuffle(order)  # noqa: S311 - spread, not secrecy
    return order


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def load() -> float:
    return round(os.getloadavg()[0], 2)


def processor() -> str:
    """What the machine computes with, as it says itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
