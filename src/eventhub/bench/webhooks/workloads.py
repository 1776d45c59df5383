"""What is measured of webhooks, each with a dispatcher and a receiver of its own on a fresh database."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from time import monotonic, perf_counter
from typing import Any, Final

from eventhub.bench.figures import Sample, share
from eventhub.bench.http.processes import BenchFailed
from eventhub.bench.settings import BATCH, PUBLISHERS
from eventhub.bench.webhooks.client import ClientOrders
from eventhub.bench.webhooks.flow import Flow
from eventhub.bench.webhooks.processes import dispatcher, receiver, send_alone
from eventhub.bench.webhooks.receiver import HANGING, HOT, TIMED, ReceiverOrders, Tally
from eventhub.bench.webhooks.stage import EVERY_B, HOT_B, A, B, Stage, event, stage
from eventhub.bench.workloads import Context, Measure, Workload, timed
from eventhub.core.strict_json import dump
from eventhub.hub.credentials import new_secret

__all__ = ["webhook_workloads"]

FIVE: Final = (A, A, B, B, B)
"""What the subscribers want: an event is wanted by two or by three of them, in turn."""
COPIES: Final = 2.5
KEYS: Final = 1000
IN_FLIGHT: Final = 32
"""Requests under way to one subscriber, the default of a subscriber."""
CONSUMERS: Final = 50
PUBLISH_SHARE: Final = 4
FAN_OUT_SHARE: Final = 500
"""One event of how many is handed out to all subscribers."""
REST: Final = (0.03, 0.05)
"""Seconds between two events: long enough that nobody is busy any more."""
WARM_UP: Final = 5
PATIENCE: Final = 60.0


def webhook_workloads(context: Context) -> list[Workload]:
    """Everything that can be measured of webhooks on this engine, in the order of a round."""
    settings = context.settings
    waiting, many = settings.others, settings.subscribers
    alone, quiet = "the sender alone", "without"
    return [
        _rate("webhook-rate", "signed webhooks, 5 subscribers", _rate_unordered, _alone("sender"), alone),
        _rate("webhook-rate-ordered", f"the same, ordered, {KEYS:,} keys", _rate_ordered, _alone("sender"), alone),
        _rate("webhook-client", "the sender alone", _alone("sender"), _alone("aiohttp"), "aiohttp alone"),
        Workload(name="webhook-idle", title="publish to receipt, idle, p50", unit="ms", ours=_idle, raw=None),
        _rate("webhook-hung", f"{CONSUMERS - 1} consumers beside one that hangs", _hung, _none_hung, quiet),
        _rate("webhook-hot-key", f"other keys beside {waiting:,} of one", _hot_key, _no_hot_key, quiet),
        Workload(
            name="webhook-publish",
            title=f"publish for {many:,} subscribers, {PUBLISHERS} tasks",
            unit="events/s",
            ours=_publish_for_many,
            raw=_publish_for_none,
            beside="for none",
        ),
    ]


def _rate(name: str, title: str, ours: Measure, raw: Measure, beside: str) -> Workload:
    return Workload(name=name, title=title, unit="webhooks/s", ours=ours, raw=raw, beside=beside)


# ---------------------------------------------------------------------- rate


async def _rate_unordered(context: Context) -> Sample:
    return await _five(context, ordered=False)


async def _rate_ordered(context: Context) -> Sample:
    return await _five(context, ordered=True)


async def _five(context: Context, *, ordered: bool) -> Sample:
    async with stage(context, ordered=ordered) as on:
        await on.subscribe(FIVE, ordered=ordered)
        async with dispatcher(on.url, on.secret_file) as sending:
            flow = Flow(on, sending, _events(ordered=ordered), COPIES)
            sample = await flow.measure(context.settings.events)
            await flow.end()
            return sample


def _events(*, ordered: bool) -> Iterator[dict[str, Any]]:
    """For two, for three, for two …; each key has its share of both."""
    for number in itertools.count():
        yield event(number, (A, B)[number % 2], f"key-{number // 2 % KEYS}" if ordered else "")


def _alone(client: Any) -> Measure:
    async def measure(context: Context) -> Sample:
        count, secret = context.settings.events, new_secret()
        async with receiver(ReceiverOrders(secret=secret)) as to:
            report = await send_alone(
                ClientOrders(
                    client=client,
                    urls=[f"{to.base}/{number}" for number in range(len(FIVE))],
                    payload=dump(event(0, A)["payload"]),
                    secret=secret,
                    concurrency=len(FIVE) * IN_FLIGHT,
                    count=count,
                )
            )
        return Sample(count / report.seconds, {} if report.cpu is None else {"client %": report.cpu})

    return measure


# ---------------------------------------------------------------------- idle


async def _idle(context: Context) -> Sample:
    """From the call of ``publish`` to the receiver, one event at a time."""
    began: dict[int, float] = {}
    committed: dict[int, float] = {}
    async with stage(context) as on:
        await on.subscribe([A], paths=[TIMED])
        async with dispatcher(on.url, on.secret_file):
            await on.hub.publish_many([event(0, A)])
            await _received(on, 1)
            total = context.settings.paced + WARM_UP
            for number in range(1, total + 1):
                await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
                began[number] = monotonic()
                await on.hub.publish_many([event(number, A)])
                committed[number] = monotonic()
            tally = await _received(on, total + 1)
    numbers = range(WARM_UP + 1, total + 1)
    whole = sorted((tally.times[number] - began[number]) * 1000 for number in numbers)
    after = sorted((tally.times[number] - committed[number]) * 1000 for number in numbers)
    return Sample(share(whole, 0.5), {"p99": share(whole, 0.99), "from the commit, p50": share(after, 0.5)})


async def _received(on: Stage, count: int) -> Tally:
    times: dict[int, float] = {}
    async with asyncio.timeout(PATIENCE):
        while True:
            tally = await on.receiver.look()
            times |= tally.times
            if tally.received >= count:
                return Tally(at=tally.at, counts=tally.counts, times=times)
            await asyncio.sleep(REST[0])


# --------------------------------------------------------------- in the way


async def _hung(context: Context) -> Sample:
    return await _fifty(context, HANGING)


async def _none_hung(context: Context) -> Sample:
    return await _fifty(context, "/well")


async def _fifty(context: Context, odd: str) -> Sample:
    """The rate of all consumers but the one at this path."""
    paths = [odd, *(f"/{number}" for number in range(1, CONSUMERS))]
    async with stage(context, hang_seconds=context.settings.hang_seconds) as on:
        await on.subscribe([A] * CONSUMERS, paths=paths)
        async with dispatcher(on.url, on.secret_file) as sending:
            endless = (event(number, A) for number in itertools.count())
            flow = Flow(
                on, sending, endless, CONSUMERS - 1, counted=lambda tally: tally.received - tally.counts.get(odd, 0)
            )
            return await flow.measure(context.settings.events)


async def _hot_key(context: Context) -> Sample:
    return await _beside(context, context.settings.others)


async def _no_hot_key(context: Context) -> Sample:
    return await _beside(context, 0)


async def _beside(context: Context, waiting: int) -> Sample:
    """The rate of other keys while so many messages of one key wait for one of the same subscribers."""
    async with stage(context, ordered=True) as on:
        await on.subscribe([*FIVE[:-1], EVERY_B], ordered=True)
        for start in range(0, waiting, BATCH):
            numbers = range(start, min(start + BATCH, waiting))
            await on.hub.publish_many([event(number, HOT_B, HOT) for number in numbers])
        if waiting and await on.hand_out() != waiting:
            raise BenchFailed("The messages of the hot key were not made.")
        async with dispatcher(on.url, on.secret_file) as sending:
            flow = Flow(
                on,
                sending,
                _events(ordered=True),
                COPIES,
                counted=lambda tally: tally.received - tally.counts.get(HOT, 0),
            )
            sample = await flow.measure(context.settings.events)
            done = (await on.receiver.look()).counts.get(HOT, 0)
            if waiting and done >= waiting:
                raise BenchFailed(f"All {waiting:,} messages of the hot key were delivered; give a larger --backlog.")
            return sample


# ------------------------------------------------------------------- publish


async def _publish_for_many(context: Context) -> Sample:
    async with stage(context) as on:
        await on.subscribe([A] * context.settings.subscribers)
        rate = await _publish(on, context)
        shown = {"while handed out /s": await _publish_beside(on, context)}
    async with stage(context) as on:
        await on.subscribe([A] * context.settings.subscribers)
        events = max(context.settings.events // FAN_OUT_SHARE, 1)
        await on.hub.publish_many([event(number, A) for number in range(events)])
        started = perf_counter()
        messages = await on.hand_out()
        shown["messages made /s"] = messages / (perf_counter() - started)
    return Sample(rate, shown)


async def _publish_for_none(context: Context) -> Sample:
    async with stage(context) as on:
        rate = await _publish(on, context)
        return Sample(rate, {"while handed out /s": await _publish_beside(on, context)})


async def _publish_beside(on: Stage, context: Context) -> float:
    async with dispatcher(on.url, on.secret_file):
        return await _publish(on, context)


async def _publish(on: Stage, context: Context) -> float:
    """Events a second, published one by one by several tasks."""
    count = max(context.settings.events // PUBLISH_SHARE, 1)
    numbers = iter(range(count))

    async def publisher() -> None:
        for number in numbers:
            await on.hub.publish(A, event(number, A)["payload"])

    await on.hub.publish(A, {})
    return count / await timed(asyncio.gather(*(publisher() for _ in range(PUBLISHERS))))
