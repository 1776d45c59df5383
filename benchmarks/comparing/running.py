"""A run of queues on one engine: each system is a program of its own that is spoken to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from benchmarks.comparing.databases import Places
from benchmarks.comparing.results import Result, SystemFacts
from benchmarks.comparing.rounds import Planned, Rounds, Tell
from benchmarks.comparing.settings import Engine, Settings
from benchmarks.comparing.systems import System
from benchmarks.comparing.workloads import Bench, Workload, workloads
from eventhub.bench.figures import Sample
from eventhub.bench.machine import machine_facts

__all__ = ["run"]


async def run(
    engine: Engine, places: Places, systems: Sequence[System], settings: Settings, *, log: int, tell: Tell
) -> AsyncIterator[Result]:
    """Measure every system; ``places`` must be open. After each round the result so far is given out."""
    bench = Bench(places, settings, log)
    rounds = Rounds(
        settings,
        [system.name for system in systems],
        [_planned(workload, bench, systems) for workload in workloads(settings, postgres=engine == "postgres")],
        tell,
    )
    facts = machine_facts({engine: places.facts})
    async with bench.stack:
        for system in systems:  # which also sees whether it runs at all, before hours are spent
            async with places.empty() as url, bench.adapter(system, url) as adapter:
                bench.told[system.name] = adapter.told
        async for _ in rounds.go():
            yield rounds.result(engine, facts, [_facts(system, bench) for system in systems])


def _planned(workload: Workload, bench: Bench, systems: Sequence[System]) -> Planned:
    named = {system.name: system for system in systems}

    async def measure(name: str) -> Sample:
        return await workload.measure(bench, named[name])

    return Planned(name=workload.name, title=workload.title, unit=workload.unit, measure=measure)


def _facts(system: System, bench: Bench) -> SystemFacts:
    told = bench.told[system.name]
    return SystemFacts(
        name=system.name,
        kind=system.kind,
        language=system.language,
        settings=told["settings"],
        versions=told["versions"],
    )
