"""A run on one engine: round by round, and in a round each workload by every system in turn."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.comparing.conversation import Missing, Trouble
from benchmarks.comparing.databases import Places
from benchmarks.comparing.results import Comparison, Figure, Noise, Result, SystemFacts, compare, figure
from benchmarks.comparing.settings import Engine, Settings, chosen
from benchmarks.comparing.systems import System
from benchmarks.comparing.workloads import Bench, Workload, workloads
from eventhub.bench.figures import Sample
from eventhub.bench.machine import machine_facts

__all__ = ["run"]

Key = tuple[str, str]
Tell = Callable[[str], None]


class Run:
    """Collects the samples of all rounds."""

    def __init__(self, bench: Bench, systems: Sequence[System], plan: Sequence[Workload], tell: Tell) -> None:
        self._bench = bench
        self._systems = systems
        self._plan = plan
        self._tell = tell
        self.samples: dict[Key, list[Sample | None]] = {(w.name, s.name): [] for w in plan for s in systems}
        self.missing: dict[Key, str] = {}
        self.troubles: dict[Key, list[str]] = {key: [] for key in self.samples}
        self.loads = [load()]

    async def go(self) -> AsyncIterator[None]:
        """Stops for a moment after each round."""
        rounds = self._bench.settings.rounds
        for number in range(1, rounds + 1):
            for workload in self._plan:
                for place in range(len(self._systems)):
                    # Nobody is always the first, or always comes right after the same other.
                    system = self._systems[(place + number - 1) % len(self._systems)]
                    await self._measure(f"round {number}/{rounds}", workload, system)
            yield

    async def _measure(self, when: str, workload: Workload, system: System) -> None:
        key = (workload.name, system.name)
        if key in self.missing:
            return
        sample: Sample | None = None
        try:
            sample = await workload.measure(self._bench, system)
            said = f"{sample.value:,.1f} {workload.unit}"
        except Missing as why:
            self.missing[key] = said = str(why)
        except Trouble as trouble:
            self.troubles[key].append(str(trouble))
            said = f"failed: {trouble}"
        self.samples[key].append(sample)
        self.loads.append(load())
        self._tell(f"{when}  {workload.name:<21}{system.name:<17}{said}")

    def figures(self) -> tuple[list[Figure], list[Comparison]]:
        """What the rounds until now make."""
        figures = [
            figure(workload, system, samples, self.missing.get((workload, system), ""), self.troubles[workload, system])
            for (workload, system), samples in self.samples.items()
        ]
        by_workload = {w.name: {s.name: self.samples[w.name, s.name] for s in self._systems} for w in self._plan}
        return figures, [one for workload, rounds in by_workload.items() for one in compare(workload, rounds)]


async def run(
    engine: Engine, places: Places, systems: Sequence[System], settings: Settings, *, log: int, tell: Tell
) -> AsyncIterator[Result]:
    """Measure every system; ``places`` must be open. After each round the result so far is given out."""
    began = datetime.now(UTC)
    bench = Bench(places, settings, log)
    plan = workloads(settings, postgres=engine == "postgres")
    names = chosen(settings.only, [workload.name for workload in plan], "workload")
    plan = [workload for workload in plan if workload.name in names]
    done = Run(bench, systems, plan, tell)
    facts = machine_facts({engine: places.facts})
    async with bench.stack:
        for system in systems:  # which also sees whether it runs at all, before hours are spent
            async with places.empty() as url, bench.adapter(system, url) as adapter:
                bench.told[system.name] = adapter.told
        async for _ in done.go():
            figures, comparisons = done.figures()
            yield Result(
                engine=engine,
                began=began.isoformat(timespec="seconds"),
                ended=datetime.now(UTC).isoformat(timespec="seconds"),
                processor=processor(),
                facts=facts,
                settings=settings,
                noise=Noise(load_before=done.loads[0], load_after=load(), load_highest=max(done.loads)),
                systems=[_facts(system, bench) for system in systems],
                workloads=[{"name": w.name, "title": w.title, "unit": w.unit} for w in plan],
                figures=figures,
                comparisons=comparisons,
            )


def _facts(system: System, bench: Bench) -> SystemFacts:
    told = bench.told[system.name]
    return SystemFacts(
        name=system.name,
        kind=system.kind,
        language=system.language,
        settings=told["settings"],
        versions=told["versions"],
    )


def load() -> float:
    return round(os.getloadavg()[0], 2)


def processor() -> str:
    """What the machine computes with, as it says itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
