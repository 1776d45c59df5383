"""What is measured: each workload first through the public faces, then by the bare driver."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any, Final

import msgspec

from eventhub.bench.databases import Databases
from eventhub.bench.figures import Sample, Unit
from eventhub.bench.latency import from_other_process, from_this_process, raw_latencies
from eventhub.bench.payloads import PAYLOAD, batch
from eventhub.bench.raw import open_raw
from eventhub.bench.settings import BATCH, CLAIM, PUBLISHERS, TYPE, BenchSettings
from eventhub.bench.troubles import dead_pages, make_dead, raw_dead_pages, recover
from eventhub.queue import EventManager, EventQueue

__all__ = ["Context", "Measure", "Workload", "workloads"]

HELD_SHARE: Final = 4
"""How many times the usual number is drained under a held snapshot: its harm grows with what was done."""
GLANCE: Final = 0.005
"""Seconds between two looks at how far the manager is."""
LANES: Final = {"sqlite": 1, "postgres": 2}
"""How many batches of single publishes a store has on their way at once."""


class Context:
    """One engine during a run: its databases, the sizes, and databases that outlast a round."""

    def __init__(self, databases: Databases, settings: BenchSettings) -> None:
        self.databases = databases
        self.engine = databases.engine
        self.settings = settings
        self.kept: dict[str, str] = {}
        self.stack = AsyncExitStack()

    async def keep(self, name: str, prepare: Callable[[str], Awaitable[None]]) -> str:
        """The URL of a database that is prepared once and used in every round."""
        if name not in self.kept:
            url = await self.stack.enter_async_context(self.databases.fresh())
            await prepare(url)
            self.kept[name] = url
        return self.kept[name]


Measure = Callable[[Context], Awaitable[Sample]]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    unit: Unit
    ours: Measure
    raw: Measure | None
    beside: str = "raw limit"
    """What the other side is."""
    note: str = ""


# ------------------------------------------------------------------ publish


def _publish_one_by_one(name: str, *, tasks: int, share: int) -> Workload:
    async def ours(context: Context) -> Sample:
        count = max(context.settings.events // share, 1)
        async with context.databases.fresh() as url, EventQueue(url) as queue:
            await asyncio.gather(*(queue.publish(TYPE, PAYLOAD) for _ in range(tasks)))
            numbers = iter(range(count))

            async def publisher() -> None:
                for _ in numbers:
                    await queue.publish(TYPE, PAYLOAD)

            return Sample(count / await timed(asyncio.gather(*(publisher() for _ in range(tasks)))))

    async def raw(context: Context) -> Sample:
        count = max(context.settings.events // share, 1)
        lanes = min(LANES[context.engine], tasks)
        together = max(tasks // lanes, 1)
        count += -count % together
        async with context.databases.fresh() as url, open_raw(context.engine, url) as driver:
            return Sample(count / await driver.publish(count, batch=together, connections=lanes))

    title = f"publish one by one, {tasks} task{'s' * (tasks > 1)}"
    return Workload(name=name, title=title, unit="events/s", ours=ours, raw=raw)


async def _batches_ours(context: Context) -> Sample:
    batches = max(context.settings.events // BATCH, 1)
    async with context.databases.fresh() as url, EventQueue(url) as queue:
        events = batch(BATCH)
        await queue.publish_many(events[:1])

        async def publish() -> None:
            for _ in range(batches):
                await queue.publish_many(events)

        return Sample(batches * BATCH / await timed(publish()))


async def _batches_raw(context: Context) -> Sample:
    count = max(context.settings.events // BATCH, 1) * BATCH
    async with context.databases.fresh() as url, open_raw(context.engine, url) as driver:
        return Sample(count / await driver.publish(count, batch=BATCH, connections=1))


# -------------------------------------------------------------------- drain


async def _drain_ours(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        await fill(url, context.settings.events)
        return await drain(url, context.settings.events)


async def _drain_raw(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        await fill(url, context.settings.events)
        return await _raw_drain(context, url, context.settings.events)


async def _backlog_ours(context: Context) -> Sample:
    return await drain(await _backlogged(context), context.settings.events)


async def _backlog_raw(context: Context) -> Sample:
    return await _raw_drain(context, await _backlogged(context), context.settings.events)


async def _backlogged(context: Context) -> str:
    settings = context.settings
    total = settings.backlog + 2 * settings.rounds * settings.events
    return await context.keep("backlog", lambda url: fill(url, total))


async def _held_ours(context: Context) -> Sample:
    from eventhub.bench.raw_postgres import HeldSnapshot

    count = HELD_SHARE * context.settings.events
    async with context.databases.fresh() as url:
        await fill(url, count)
        async with HeldSnapshot(url):
            return await drain(url, count, seconds=context.settings.seconds)


async def _held_raw(context: Context) -> Sample:
    from eventhub.bench.raw_postgres import HeldSnapshot

    count = HELD_SHARE * context.settings.events
    async with context.databases.fresh() as url:
        await fill(url, count)
        async with HeldSnapshot(url):
            return await _raw_drain(context, url, count, seconds=context.settings.seconds)


async def fill(url: str, count: int) -> None:
    """Publish so many events to be drained."""
    async with EventQueue(url) as queue:
        sizes = iter([BATCH] * (count // BATCH) + [count % BATCH] * (count % BATCH > 0))

        async def publisher() -> None:
            for size in sizes:
                await queue.publish_many(batch(size))

        await asyncio.gather(publisher(), publisher())


async def drain(url: str, count: int, *, seconds: float = 600.0) -> Sample:
    """Let a manager with a handler that does nothing complete so many events."""
    async with EventQueue(url) as queue:
        manager = EventManager(queue, batch=CLAIM)
        manager.register("nothing", TYPE, _do_nothing)
        gc.collect()
        started = perf_counter()
        running = asyncio.create_task(manager.run())
        while (  # noqa: ASYNC110 - the public counters, as an operator reads them
            manager.numbers.completed < count and not running.done() and perf_counter() - started < seconds
        ):
            await asyncio.sleep(GLANCE)
        done, took = manager.numbers.completed, perf_counter() - started
        manager.stop()
        await running
    return Sample(done / took)


async def _raw_drain(context: Context, url: str, count: int, *, seconds: float | None = None) -> Sample:
    async with open_raw(context.engine, url) as driver:
        gc.collect()
        done, took = await driver.drain(count, batch=CLAIM, seconds=seconds)
    return Sample(done / took)


async def _do_nothing(_: object) -> None:
    """Handle an event."""


async def timed(work: Awaitable[Any]) -> float:
    """Seconds that the work took."""
    gc.collect()
    started = perf_counter()
    await work
    return perf_counter() - started


# --------------------------------------------------------- waits and troubles


async def _latency_ours(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        return await from_this_process(url, context.settings.latencies)


async def _latency_raw(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        return await raw_latencies(context.engine, url, context.settings.latencies, notified=False)


async def _other_process_ours(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        return await from_other_process(url, context.settings.latencies)


async def _other_process_raw(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        return await raw_latencies(context.engine, url, context.settings.latencies, notified=True)


async def _dead_database(context: Context) -> str:
    return await context.keep("dead", lambda url: make_dead(url, context.settings.dead))


async def _dead_ours(context: Context) -> Sample:
    return await dead_pages(await _dead_database(context), context.settings.dead)


async def _dead_raw(context: Context) -> Sample:
    return await raw_dead_pages(context.engine, await _dead_database(context), context.settings.dead)


async def _recovery_ours(context: Context) -> Sample:
    async with context.databases.fresh() as url:
        return await recover(url, context.settings.stuck)


def workloads(context: Context) -> list[Workload]:
    """Everything that can be measured on this engine with these settings, in the order of a round."""
    settings, postgres = context.settings, context.engine == "postgres"
    found = [
        _publish_one_by_one("publish-1", tasks=1, share=10),
        _publish_one_by_one("publish-16", tasks=PUBLISHERS, share=2),
        _workload("publish-batch", f"publish in batches of {BATCH:,}", "events/s", _batches_ours, _batches_raw),
        _workload("drain", f"drain {settings.events:,}", "events/s", _drain_ours, _drain_raw),
    ]
    if settings.backlog:
        title = f"drain {settings.events:,} before {settings.backlog:,} more"
        found.append(_workload("drain-backlog", title, "events/s", _backlog_ours, _backlog_raw))
    if settings.held_snapshot and postgres:
        title = f"drain {HELD_SHARE * settings.events:,} under a held snapshot"
        found.append(_workload("drain-held", title, "events/s", _held_ours, _held_raw))
    other = _other_process_raw if postgres else None
    found += [
        _workload("latency", "commit to handler, idle, p50", "ms", _latency_ours, _latency_raw),
        _workload("latency-other-process", "the same, from another process", "ms", _other_process_ours, other),
        _workload("dlq-page", f"page of 100 among {settings.dead:,} dead, p50", "ms", _dead_ours, _dead_raw),
        _workload("recovery", f"take back {settings.stuck:,} stuck events", "ms", _recovery_ours, None),
    ]
    return found


def _workload(name: str, title: str, unit: Unit, ours: Measure, raw: Measure | None) -> Workload:
    return Workload(name=name, title=title, unit=unit, ours=ours, raw=raw)
