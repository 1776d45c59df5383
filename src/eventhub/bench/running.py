"""A run: rounds over all workloads, ours and raw in turn, so that both see the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from eventhub.bench.databases import Databases
from eventhub.bench.figures import Figure, Sample, Spread, spread
from eventhub.bench.machine import Facts, machine_facts
from eventhub.bench.settings import BenchSettings, chosen
from eventhub.bench.targets import judge
from eventhub.bench.workloads import Context, Workload, workloads

__all__ = ["Result", "Step", "Tell", "run_bench", "steps"]

DRAIN: Final = "drain"


class Step(msgspec.Struct, frozen=True):
    """What is being measured now."""

    engine: str
    title: str
    round: int
    side: str


Tell = Callable[[Step], None]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    facts: Facts
    settings: BenchSettings
    figures: list[Figure]


def steps(engines: Sequence[Databases], settings: BenchSettings) -> int:
    """How many measurements a run takes."""
    return settings.rounds * sum(
        1 + (workload.raw is not None) for databases in engines for workload in _chosen(Context(databases, settings))
    )


async def run_bench(engines: Sequence[Databases], settings: BenchSettings, *, tell: Tell = lambda _: None) -> Result:
    """Measure every engine, one after the other; each must be open."""
    facts = machine_facts({databases.engine: databases.facts for databases in engines})
    figures: list[Figure] = []
    for databases in engines:
        figures += await _run_engine(Context(databases, settings), tell)
    return Result(facts=facts, settings=settings, figures=figures)


async def _run_engine(context: Context, tell: Tell) -> list[Figure]:
    plan = _chosen(context)
    ours: dict[str, list[Sample]] = {workload.name: [] for workload in plan}
    raw: dict[str, list[Sample]] = {workload.name: [] for workload in plan}
    async with context.stack:
        for number in range(1, context.settings.rounds + 1):
            for workload in plan:
                tell(Step(context.engine, workload.title, number, "Event Hub"))
                ours[workload.name].append(await workload.ours(context))
                if workload.raw is not None:
                    tell(Step(context.engine, workload.title, number, workload.beside))
                    raw[workload.name].append(await workload.raw(context))
    return [_figure(context.engine, workload, ours, raw[workload.name]) for workload in plan]


def _chosen(context: Context) -> list[Workload]:
    settings = context.settings
    names = chosen(settings.only, settings.names)
    if settings.http:
        from eventhub.bench.http.workloads import http_workloads

        return [workload for workload in http_workloads(context) if workload.name in names]
    if settings.webhooks:
        from eventhub.bench.webhooks.workloads import webhook_workloads

        return [workload for workload in webhook_workloads(context) if workload.name in names]
    if settings.pipeline:
        from eventhub.bench.pipeline.workloads import pipeline_workloads

        return [workload for workload in pipeline_workloads(context) if workload.name in names]
    return [workload for workload in workloads(context) if workload.name in names]


def _figure(engine: str, workload: Workload, ours: dict[str, list[Sample]], raw: list[Sample]) -> Figure:
    mine = ours[workload.name]
    compared = workload.name.startswith(f"{DRAIN}-") and DRAIN in ours
    values = spread([sample.value for sample in mine])
    ratio = _ratio(mine, raw) if raw else None
    of_drain = _ratio(mine, ours[DRAIN]) if compared else None
    more = _more(mine)
    return Figure(
        engine=engine,
        workload=workload.name,
        title=workload.title,
        unit=workload.unit,
        ours=values,
        raw=spread([sample.value for sample in raw]) if raw else None,
        beside=workload.beside,
        ratio=ratio,
        of_drain=of_drain,
        more=more,
        raw_more=_more(raw),
        note=workload.note,
        outcomes=judge(engine, workload.name, ours=values, ratio=ratio, of_drain=of_drain, more=more),
    )


def _more(samples: Sequence[Sample]) -> dict[str, Spread]:
    return {name: spread([sample.more[name] for sample in samples]) for name in (samples[0].more if samples else ())}


def _ratio(above: Sequence[Sample], below: Sequence[Sample]) -> Spread:
    return spread([a.value / b.value for a, b in zip(above, below, strict=True)])
