"""The workloads: how each is asked of an adapter, and what value comes of its answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any, Final

import msgspec

from benchmarks.comparing.conversation import Adapter, Missing, Trouble
from benchmarks.comparing.databases import Places, held_snapshot
from benchmarks.comparing.settings import WORKLOADS, Settings
from benchmarks.comparing.systems import System
from eventhub.bench.figures import Sample, share
from eventhub.bench.payloads import PAYLOAD

__all__ = ["Bench", "Workload", "workloads"]

BATCH: Final = 1000
SPARE: Final = 5000
"""Events more for each round: a worker that is stopped in time has handled a little more than it was meant to."""
REST: Final = (0.01, 0.02)


class Bench:
    """One engine during a run: its databases, and those that outlast a round."""

    def __init__(self, places: Places, settings: Settings, log: int) -> None:
        self.places = places
        self.settings = settings
        self.told: dict[str, dict[str, Any]] = {}
        self.stack = AsyncExitStack()
        self._log = log
        self._kept: dict[str, str] = {}

    def adapter(self, system: System, url: str) -> Adapter:
        return Adapter(system, url, PAYLOAD, self._log)

    async def backlogged(self, system: System) -> str:
        """A database with a backlog, filled once for all rounds."""
        if system.name not in self._kept:
            settings = self.settings
            url = await self.stack.enter_async_context(self.places.empty())
            async with self.adapter(system, url) as adapter:
                await adapter.ask("fill", count=settings.backlog + settings.rounds * (settings.events + SPARE))
            self._kept[system.name] = url
        return self._kept[system.name]


Measure = Callable[[Bench, System], Awaitable[Sample]]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    unit: str
    measure: Measure


def _rate(answer: dict[str, Any]) -> Sample:
    if answer["count"] == 0:
        raise Trouble("nothing was done in the time there was")
    running = answer["seconds"] - answer.get("first", 0.0)
    more = {"once running": answer["count"] / running} if "first" in answer and running > 0 else {}
    return Sample(answer["count"] / answer["seconds"], more)


def _publishing(do: str, part: int, **asked: int) -> Measure:
    async def measure(bench: Bench, system: System) -> Sample:
        count = max(bench.settings.events // part, 1)
        async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
            bench.told[system.name] = adapter.told
            return _rate(await adapter.ask(do, count=count, **asked))

    return measure


async def _drain(bench: Bench, system: System) -> Sample:
    settings = bench.settings
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        await adapter.ask("fill", count=settings.events)
        answer = await adapter.ask("drain", count=settings.events, seconds=settings.drain_seconds)
    _check(answer, settings.events, settings.drain_seconds)
    return _rate(answer)


async def _ordered(bench: Bench, system: System) -> Sample:
    settings = bench.settings
    count = max(settings.events // 5, 1)
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        answer = await adapter.ask("ordered", count=count, keys=settings.keys, seconds=settings.drain_seconds)
    _check(answer, count, settings.drain_seconds)
    return _rate(answer)


def _check(answer: dict[str, Any], wanted: int, seconds: float) -> None:
    """Everything was handled, once, and the tables agree; unless the time was up before."""
    if answer["count"] < wanted and answer["seconds"] >= seconds:
        return
    if answer["handled"] != wanted or answer["left"] != 0:
        raise Trouble(f"{answer['handled']:,} of {wanted:,} events were handled, and {answer['left']:,} are left")


async def _backlog(bench: Bench, system: System) -> Sample:
    settings = bench.settings
    async with bench.adapter(system, await bench.backlogged(system)) as adapter:
        answer = await adapter.ask("drain", count=settings.events, seconds=settings.drain_seconds)
    if answer["left"] < settings.backlog:
        raise Trouble(f"only {answer['left']:,} events were left behind those that were drained")
    return _rate(answer)


async def _held(bench: Bench, system: System) -> Sample:
    """Fill and drain, over and over, under one old snapshot; only draining is timed."""
    settings = bench.settings
    handled, seconds, last = 0, 0.0, 0.0
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter, held_snapshot(url):
        ends = monotonic() + settings.held_seconds
        while (rest := ends - monotonic()) > 0:
            await adapter.ask("fill", count=settings.events)
            answer = await adapter.ask("drain", count=settings.events, seconds=max(rest, 1.0))
            handled += answer["count"]
            seconds += answer["seconds"]
            last = answer["count"] / answer["seconds"]
    return Sample(_rate({"count": handled, "seconds": seconds}).value, {"last drain": last, "events": handled})


async def _latency(bench: Bench, system: System) -> Sample:
    """Publisher and worker are two processes."""
    count = bench.settings.latencies
    async with bench.places.empty() as url, bench.adapter(system, url) as worker:
        if system.kind == "limit":  # a driver claims by itself what it was notified of
            return _milliseconds((await worker.ask("latency", count=count))["milliseconds"])
        async with bench.adapter(system, url) as publisher:
            worker.say("work")
            await worker.hear()
            found = []
            for number in range(count + 1):
                await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
                committed = (await publisher.ask("publish_one"))["committed"]
                started = (await worker.hear())["at"]
                if number:  # the first one only warms up
                    found.append(max(0.0, started - committed) * 1000)
            worker.say("rest")
            await worker.hear()
    return _milliseconds(found)


async def _latency_same_process(bench: Bench, system: System) -> Sample:
    if system.kind == "limit":
        raise Missing("the limit is measured once, above")
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        return _milliseconds((await adapter.ask("latency", count=bench.settings.latencies))["milliseconds"])


def _milliseconds(found: list[float]) -> Sample:
    ordered = sorted(found)
    return Sample(share(ordered, 0.5), {"p99": share(ordered, 0.99)})


async def _memory(bench: Bench, system: System) -> Sample:
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        answer = await adapter.ask("memory", seconds=bench.settings.idle_seconds)
    return Sample(answer["bytes"] / 2**20)


def workloads(settings: Settings, *, postgres: bool) -> list[Workload]:
    """What can be measured on this engine, in the order of a round."""
    events, rate = f"{settings.events:,}", "events/s"
    found = [
        ("publish-1", "publish one by one", rate, _publishing("publish", 10, at_once=1)),
        ("publish-16", "publish one by one, 16 at once", rate, _publishing("publish", 2, at_once=16)),
        ("publish-batch", f"publish in batches of {BATCH:,}", rate, _publishing("batch", 1, size=BATCH)),
        ("drain", f"drain {events}", rate, _drain),
        ("drain-backlog", f"drain {events} before {settings.backlog:,} more", rate, _backlog),
        ("drain-held", f"drain for {settings.held_seconds:g} s under a held snapshot", rate, _held),
        ("ordered", f"drain in order of {settings.keys} keys", rate, _ordered),
        ("latency", "commit to handler, idle, two processes, p50", "ms", _latency),
        ("latency-same-process", "commit to handler, idle, one process, p50", "ms", _latency_same_process),
        ("memory", "memory of an idle worker", "MB", _memory),
    ]
    assert [name for name, *_ in found] == list(WORKLOADS)
    left_out = [name for name, there in (("drain-backlog", settings.backlog), ("drain-held", postgres)) if not there]
    return [
        Workload(name=name, title=title, unit=unit, measure=measure)
        for name, title, unit, measure in found
        if name not in left_out
    ]
