"""What is measured over HTTP, each on a server process of its own with a fresh database."""

from __future__ import annotations

from typing import Final

from eventhub.bench.figures import Sample
from eventhub.bench.http.load import TAKE, Kind, LoadReport
from eventhub.bench.http.processes import ServerProcess, has_rival, hub_server, put_load, rival_server
from eventhub.bench.http.tagged import claim_tagged, claim_untagged, fill_tagged, fill_work
from eventhub.bench.settings import BATCH
from eventhub.bench.workloads import Context, Workload

__all__ = ["http_workloads"]

BATCHERS: Final = 4
"""Connections that publish, or work, in batches."""
PUBLISH_SHARE: Final = 2
WORK_SHARE: Final = 4
"""One event of how many: what goes one by one takes longer."""
RIVAL: Final = "FastAPI, one INSERT"
NO_RIVAL: Final = "no FastAPI to compare with: pip install fastapi"
UNTAGGED: Final = "without tags"


def http_workloads(context: Context) -> list[Workload]:
    """Everything that can be measured over HTTP on this engine, in the order of a round."""
    settings = context.settings
    postgres = context.engine == "postgres"
    compared = postgres and has_rival()
    return [
        Workload(
            name="http-publish",
            title=f"POST /events, {settings.connections} connections",
            unit="events/s",
            ours=_publish_ours,
            raw=_publish_rival if compared else None,
            beside=RIVAL,
            note=NO_RIVAL if postgres and not compared else "",
        ),
        Workload(
            name="http-publish-batch",
            title=f"POST /events/batch of {BATCH:,}",
            unit="events/s",
            ours=_publish_batches,
            raw=None,
        ),
        Workload(
            name="http-work",
            title=f"subscribe + complete, {settings.connections} workers",
            unit="events/s",
            ours=_work,
            raw=None,
        ),
        Workload(
            name="http-work-batch",
            title=f"the same, {TAKE} at once, {BATCHERS} workers",
            unit="events/s",
            ours=_work_in_batches,
            raw=None,
        ),
        Workload(
            name="http-long-poll",
            title=f"publish to receipt, {settings.workers:,} waiting, p50",
            unit="ms",
            ours=_long_poll,
            raw=None,
        ),
        Workload(
            name="claim-by-tag",
            title=f"claim + release 100 by tag behind {settings.others:,}, p50",
            unit="ms",
            ours=_tagged,
            raw=_untagged,
            beside=UNTAGGED,
        ),
    ]


# ---------------------------------------------------------------- publishing


async def _publish_ours(context: Context) -> Sample:
    async with context.databases.fresh() as url, hub_server(url) as server:
        return await _published(context, server)


async def _publish_rival(context: Context) -> Sample:
    async with context.databases.fresh() as url, rival_server(url) as server:
        return await _published(context, server)


async def _published(context: Context, server: ServerProcess) -> Sample:
    settings = context.settings
    count = max(settings.events // PUBLISH_SHARE, 1)
    return _sample(await put_load(server, "publish", connections=settings.connections, count=count))


async def _publish_batches(context: Context) -> Sample:
    batches = max(context.settings.events // BATCH, 1)
    async with context.databases.fresh() as url, hub_server(url) as server:
        return _sample(await put_load(server, "publish-batch", connections=BATCHERS, count=batches))


# ------------------------------------------------------------------- working


async def _work(context: Context) -> Sample:
    settings = context.settings
    count = max(settings.events // WORK_SHARE, 1)
    return await _worked(context, "work", connections=settings.connections, count=count)


async def _work_in_batches(context: Context) -> Sample:
    return await _worked(context, "work-batch", connections=BATCHERS, count=context.settings.events)


async def _worked(context: Context, kind: Kind, *, connections: int, count: int) -> Sample:
    async with context.databases.fresh() as url:
        await fill_work(url, count)
        async with hub_server(url) as server:
            return _sample(await put_load(server, kind, connections=connections, count=count))


async def _long_poll(context: Context) -> Sample:
    settings = context.settings
    async with context.databases.fresh() as url, hub_server(url) as server:
        report = await put_load(
            server, "long-poll", connections=settings.workers, count=settings.polled, rate=settings.rate
        )
    more = {"p99": report.p99}
    if report.server_memory_mb is not None:
        more["server's memory MB"] = report.server_memory_mb
    return Sample(report.p50, more)


# --------------------------------------------------------------- claiming


async def _tagged_database(context: Context) -> str:
    return await context.keep("tagged", lambda url: fill_tagged(url, context.settings.others))


async def _tagged(context: Context) -> Sample:
    return await claim_tagged(await _tagged_database(context), context.settings.latencies)


async def _untagged(context: Context) -> Sample:
    return await claim_untagged(await _tagged_database(context), context.settings.latencies)


def _sample(report: LoadReport) -> Sample:
    more = {"p50 ms": report.p50, "p99 ms": report.p99}
    if report.server_cpu is not None:
        more["server %"] = report.server_cpu
    if report.load_cpu is not None:
        more["load %"] = report.load_cpu
    return Sample(report.events / report.seconds, more)
