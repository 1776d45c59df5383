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
from benchmarks.comparing.settings import WORKLOADS, Settings, workloads_of
from benchmarks.comparing.systems import System
from eventhub.bench.figures import Sample, share
from eventhub.bench.payloads import PAYLOAD

__all__ = ["Bench", "Workload", "workloads"]

BATCH: Final = 1000
SPARE: Final = 5000
"""Events more for each round: a worker that is stopped in time has handled a little more than it was meant to."""
REST: Final = (0.01, 0.02)
GLANCE: Final = 0.005
AHEAD: Final = 20_000
"""Events that a publisher may be ahead of the worker in the sustained workload."""


class Bench:
    """One engine during a run: its databases, and those that outlast a round."""

    def __init__(self, places: Places, settings: Settings, log: int) -> None:
        self.places = places
        self.settings = settings
        self.told: dict[str, dict[str, Any]] = {}
        self.stack = AsyncExitStack()
        self._log = log
        self._kept: dict[str, str] = {}

    def adapter(self, system: System, url: str, *, notify: bool = False) -> Adapter:
        """``notify`` when a worker that sleeps is to be woken at once."""
        return Adapter(system, url, PAYLOAD, self._log, notify=notify)

    async def backlogged(self, system: System) -> str:
        """A database with a backlog, filled once for all rounds."""
        if system.name not in self._kept:
            settings = self.settings
            url = await self.stack.enter_async_context(self.places.empty())
            async with self.adapter(system, url) as adapter:
                await adapter.ask("fill", count=settings.backlog + settings.rounds * (settings.events + SPARE))
            await self.places.tidy(url)  # else whose fill was the last would have its writing and vacuum to pay for
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
    if answer.get("settled"):
        more["until settled"] = answer["count"] / answer["settled"]
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
        answer = await adapter.ask("drain", count=settings.events, seconds=settings.drain_seconds, settle=True)
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
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter, held_snapshot(url):
        return await _filled_and_drained(bench.settings, adapter)


async def _free(bench: Bench, system: System) -> Sample:
    """The same without the snapshot, for as long: what a held one is compared with."""
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        return await _filled_and_drained(bench.settings, adapter)


async def _filled_and_drained(settings: Settings, adapter: Adapter) -> Sample:
    handled, seconds, last = 0, 0.0, 0.0
    ends = monotonic() + settings.held_seconds
    while (rest := ends - monotonic()) > 0:
        await adapter.ask("fill", count=settings.events)
        answer = await adapter.ask("drain", count=settings.events, seconds=max(rest, 1.0))
        handled += answer["count"]
        seconds += answer["seconds"]
        last = answer["count"] / answer["seconds"]
    return Sample(_rate({"count": handled, "seconds": seconds}).value, {"last drain": last, "events": handled})


async def _sustained(bench: Bench, system: System) -> Sample:
    """One process publishes batches, another works, both at once; what was completed in the time counts.

    The publisher waits when it is too far ahead, so that what is measured can go on for ever.
    """
    settings = bench.settings
    async with (
        bench.places.empty() as url,
        bench.adapter(system, url) as worker,
        bench.adapter(system, url) as publisher,
    ):
        await publisher.ask("publish_batch", count=1)
        worker.say("work", quiet=True)
        await worker.hear()
        published, handled, started = 1, 0, monotonic()
        while monotonic() - started < settings.sustained_seconds:
            if published - handled < AHEAD:
                await publisher.ask("publish_batch", count=BATCH)
                published += BATCH
            else:
                await asyncio.sleep(GLANCE)
            handled = (await worker.ask("handled"))["count"]
        took, done = monotonic() - started, handled
        ends = monotonic() + settings.drain_seconds
        while handled < published and monotonic() < ends:
            await asyncio.sleep(GLANCE)
            handled = (await worker.ask("handled"))["count"]
        worker.say("rest")
        await worker.hear()
        left = (await publisher.ask("waiting"))["count"]
    if handled >= published and (handled, left) != (published, 0):
        raise Trouble(f"{handled:,} of {published:,} events were handled, and {left:,} are left")
    return Sample(_rate({"count": done, "seconds": took}).value, {"events": done, "published": published})


async def _latency(bench: Bench, system: System) -> Sample:
    """Publisher and worker are two processes."""
    count = bench.settings.latencies
    async with bench.places.empty() as url, bench.adapter(system, url, notify=True) as worker:
        if system.kind == "limit":  # a driver claims by itself what it was notified of
            return _milliseconds(await worker.ask("latency", count=count))
        async with bench.adapter(system, url, notify=True) as publisher:
            worker.say("work")
            await worker.hear()
            found: dict[str, list[float]] = {"after_return": [], "after_call": []}
            for number in range(count + 1):
                await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
                published = await publisher.ask("publish_one")
                started = (await worker.hear())["at"]
                if number:  # the first one only warms up
                    found["after_return"].append(max(0.0, started - published["committed"]) * 1000)
                    found["after_call"].append((started - published["began"]) * 1000)
            worker.say("rest")
            await worker.hear()
    return _milliseconds(found)


async def _latency_same_process(bench: Bench, system: System) -> Sample:
    if system.kind == "limit":
        raise Missing("the limit is measured once, above")
    async with bench.places.empty() as url, bench.adapter(system, url, notify=True) as adapter:
        return _milliseconds(await adapter.ask("latency", count=bench.settings.latencies))


def _milliseconds(answer: dict[str, Any]) -> Sample:
    """From the return of publish, and beside it from the call."""
    after_return, after_call = sorted(answer["after_return"]), sorted(answer["after_call"])
    more = {"p99": share(after_return, 0.99)}
    if after_call:
        more |= {"from the call": share(after_call, 0.5), "from the call, p99": share(after_call, 0.99)}
    return Sample(share(after_return, 0.5), more)


async def _memory(bench: Bench, system: System) -> Sample:
    async with bench.places.empty() as url, bench.adapter(system, url) as adapter:
        answer = await adapter.ask("memory", seconds=bench.settings.idle_seconds)
    return Sample(answer["bytes"] / 2**20)


def workloads(settings: Settings, *, postgres: bool) -> list[Workload]:
    """What was chosen of what can be measured on this engine, in the order of a round."""
    events, rate = f"{settings.events:,}", "events/s"
    found = [
        ("publish-1", "publish one by one", rate, _publishing("publish", 10, at_once=1)),
        ("publish-16", "publish one by one, 16 at once", rate, _publishing("publish", 2, at_once=16)),
        ("publish-batch", f"publish in batches of {BATCH:,}", rate, _publishing("batch", 1, size=BATCH)),
        ("drain", f"drain {events}", rate, _drain),
        ("drain-backlog", f"drain {events} before {settings.backlog:,} more", rate, _backlog),
        ("drain-free", f"drain for {settings.held_seconds:g} s, filled again and again", rate, _free),
        (
            "drain-held",
            f"drain for {settings.held_seconds:g} s under a held snapshot, filled again and again",
            rate,
            _held,
        ),
        ("sustained", f"publish and drain at once for {settings.sustained_seconds:g} s", rate, _sustained),
        ("ordered", f"drain in order of {settings.keys} keys", rate, _ordered),
        ("latency", "commit to handler, idle, two processes, p50", "ms", _latency),
        ("latency-same-process", "commit to handler, idle, one process, p50", "ms", _latency_same_process),
        ("memory", "memory of an idle worker", "MB", _memory),
    ]
    assert [name for name, *_ in found] == list(WORKLOADS)
    there = workloads_of("postgres" if postgres else "sqlite", settings)
    return [
        Workload(name=name, title=title, unit=unit, measure=measure)
        for name, title, unit, measure in found
        if name in there
    ]
