"""The walk: from the smallest size to the largest and back, so that a machine that changed meanwhile is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator

from benchmarks.comparing.results import Noise
from benchmarks.comparing.rounds import Tell, load, now, processor
from benchmarks.growing.results import Grown, line
from benchmarks.growing.settings import Curve, Settings
from benchmarks.growing.visits import VISITS
from eventhub.bench import BenchSettings
from eventhub.bench.databases import Databases
from eventhub.bench.machine import machine_facts
from eventhub.bench.workloads import Context

__all__ = ["walk"]

Ways = dict[str, dict[int, list[float]]]


def _ways() -> Ways:
    return defaultdict(lambda: defaultdict(list))


async def walk(curve: Curve, databases: Databases, settings: Settings, *, tell: Tell) -> AsyncIterator[Grown]:
    """Measure one curve; ``databases`` must be open. After each walk the result so far is given out."""
    began, loads = now(), [load()]
    facts = machine_facts({databases.engine: databases.facts})
    sizes = settings.sizes_of(curve)
    there, back = _ways(), _ways()
    context = Context(databases, BenchSettings())
    async with context.stack:
        for number in range(1, settings.walks + 1):
            turns = [(size, there) for size in sizes] + [(size, back) for size in reversed(sizes[:-1])]
            for size, ways in turns:
                costs = await VISITS[curve](context, settings, size)
                for name, cost in costs.items():
                    ways[name][size].append(cost)
                loads.append(load())
                said = ", ".join(f"{name} {cost:,.1f}" for name, cost in costs.items())
                tell(f"{curve:<12}walk {number}/{settings.walks}  {size:>10,}  {said} us")
            yield Grown(
                curve=curve,
                engine=databases.engine,
                began=began,
                ended=now(),
                processor=processor(),
                facts=facts,
                settings=settings,
                noise=Noise(load_before=loads[0], load_after=load(), load_highest=max(loads)),
                lines=[line(name, by_size, back[name]) for name, by_size in there.items()],
            )
