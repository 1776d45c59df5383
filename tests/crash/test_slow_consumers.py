"""Consumers that hang or refuse connections delay nobody else.

Fifty consumers get the same events. In turns some of them are paused, and hang or refuse; the rates of the others in
both kinds of turn are compared: ABBA…, medians.
"""

import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from statistics import median

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store import open_store
from tests.crash.children import Nursery, until
from tests.crash.conftest import Say
from tests.crash.consumer import Arrival, Consumer
from tests.crash.hub_process import LOCAL, SECRET

pytestmark = [pytest.mark.alone]

CONSUMERS = 50
TURNS = int(os.environ.get("EVENTHUB_TURNS", "5"))
MOST_TURNS = 3 * TURNS
"""A machine that has other things to do, too, gets more of them before it is judged."""
MESSAGES = int(os.environ.get("EVENTHUB_MESSAGES", "1500"))
"""For the good ones, in each turn."""
WARM = 5
LEAST = {1: 0.85, 30: 0.6}
"""Of the rate without so many bad ones."""


class Fleet:
    """Fifty consumers, the first of which are bad: they hang, unless they have an address where nobody listens."""

    def __init__(self, hub: Hub, consumer: Consumer, bad: int) -> None:
        self._hub, self._consumer, self.bad = hub, consumer, bad
        self._ids: list[int] = []
        self._published = 0
        self._hanging = {f"/{number}" for number in range(bad)}
        self.with_bad: list[float] = []
        self.without: list[float] = []
        consumer.behave = self._behave

    @property
    def share(self) -> float:
        return median(self.with_bad) / median(self.without)

    def _behave(self, arrival: Arrival) -> int | None:
        return None if arrival.path in self._hanging else 200

    async def subscribe(self, refused: str | None = None) -> None:
        for number in range(CONSUMERS):
            bad = number < self.bad
            url = refused if refused and bad else self._consumer.url(f"/{number}")
            subscriber = Subscriber(name=f"consumer {number}", url=url, event_type="slow.test", format="raw")
            view, _ = await self._hub.subscribers.create(subscriber)
            self._ids.append(view.id)
            if bad:
                await self._hub.subscribers.pause(view.id)

    async def turn(self, *, bad: bool) -> None:
        """The rate of the good ones, in messages a second."""
        if bad:
            await self._set(active=True)
        await self._burst(WARM)  # by the end of it those that hang hang
        rate = await self._burst(MESSAGES // (CONSUMERS - self.bad))
        (self.with_bad if bad else self.without).append(rate)
        if bad:
            await self._set(active=False)

    async def _set(self, *, active: bool) -> None:
        """Let the bad ones be bad, or leave them out; then what hangs is answered."""
        for number in self._ids[: self.bad]:
            await (self._hub.subscribers.resume if active else self._hub.subscribers.pause)(number)
        if not active:
            for arrival in self._consumer.open:
                arrival.reply(503)

    async def _burst(self, events: int) -> float:
        good = [f"/{number}" for number in range(self.bad, CONSUMERS)]
        began = time.monotonic()
        await self._hub.publish_many({"type": "slow.test", "payload": number} for number in range(events))
        self._published += events
        taken = [self._consumer.taken.setdefault(path, {}) for path in good]
        await until(lambda: all(len(one) == self._published for one in taken), 60.0, "the deliveries of the others")
        last = max(next(reversed(one.values())).began for one in taken)
        return events * len(good) / (last - began)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def _compare(fleet: Fleet, say: Say, what: str) -> None:
    await fleet.turn(bad=True)  # to get warm
    fleet.with_bad.clear()
    for turn in range(MOST_TURNS):
        if turn >= TURNS and fleet.share >= LEAST[fleet.bad]:
            break
        for bad in (True, False) if turn % 2 else (False, True):
            await fleet.turn(bad=bad)
    say(f"{what}: {median(fleet.with_bad):.0f} messages/s, {median(fleet.without):.0f} without, {fleet.share:.1%}")
    assert fleet.share >= LEAST[fleet.bad], f"{fleet.with_bad} with them, {fleet.without} without"


@pytest.mark.parametrize("bad", [1, 30])
@pytest.mark.timeout(300)
async def test_consumers_that_hang_delay_nobody_else(
    postgres_url: str, stack: AsyncExitStack, nursery: Nursery, say: Say, bad: int
) -> None:
    store = await stack.enter_async_context(open_store(postgres_url))
    consumer = await stack.enter_async_context(Consumer())
    fleet = Fleet(Hub(store, secret=SECRET, allow_private=LOCAL, roles=()), consumer, bad)
    await fleet.subscribe()
    nursery.spawn("hub_process", "hub", url=postgres_url)
    await _compare(fleet, say, f"{bad} of {CONSUMERS} hang")
    assert nursery.errors() == ""


@pytest.mark.timeout(300)
async def test_a_consumer_that_refuses_connections_delays_nobody_else(
    postgres_url: str, stack: AsyncExitStack, nursery: Nursery, say: Say
) -> None:
    store = await stack.enter_async_context(open_store(postgres_url))
    consumer = await stack.enter_async_context(Consumer())
    fleet = Fleet(Hub(store, secret=SECRET, allow_private=LOCAL, roles=()), consumer, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    await fleet.subscribe(refused)
    nursery.spawn("hub_process", "hub", url=postgres_url)
    await _compare(fleet, say, f"1 of {CONSUMERS} refuses")
    assert nursery.errors() == ""
