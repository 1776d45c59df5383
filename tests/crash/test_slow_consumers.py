"""Consumers that hang or refuse connections delay nobody else.

Two databases of one server have fifty consumers each. In one of them some hang on every request until its time is up,
or refuse it; in the other these are paused. Both do the same work in turns, ABBA…; each turn is compared with the one
beside it, for the machine may be faster a moment later, and the median counts.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from statistics import median

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store import Store, open_store
from eventhub.testing.torture.children import Nursery, until
from tests.crash.conftest import Say
from tests.crash.consumer import Arrival, Consumer
from tests.crash.hub_process import LOCAL, SECRET
from tests.postgres_cluster import PostgresCluster

pytestmark = [pytest.mark.alone]

CONSUMERS = 50
TURNS = int(os.environ.get("EVENTHUB_TURNS", "5"))
MOST_TURNS = 3 * TURNS
"""A machine that has other things to do, too, gets more of them before it is judged."""
MESSAGES = int(os.environ.get("EVENTHUB_MESSAGES", "4900"))
"""For the good ones, in each turn."""
LEAST = {1: 0.85, 30: 0.6}
"""Of the rate without so many that hang. Few places for the good ones mean many small claims, which cost more."""
LEAST_WITH_REFUSALS = 0.75
"""Who refuses is asked again and again, which costs some of the same two cores."""
WITH, WITHOUT = "with", "without"


@pytest.fixture
def urls(postgres: PostgresCluster) -> Iterator[dict[str, str]]:
    postgres.start()
    yield {name: postgres.create_database(f"{name}_bad_ones") for name in (WITH, WITHOUT)}
    for name in (WITH, WITHOUT):
        postgres.drop_database(f"{name}_bad_ones")


class Site:
    """A database with fifty consumers, of which the first are bad; served by one process."""

    def __init__(self, name: str, store: Store, consumer: Consumer, bad: int) -> None:
        self._name, self._consumer, self._bad = name, consumer, bad
        self._hub = Hub(store, secret=SECRET, allow_private=LOCAL, roles=())
        self._published = 0
        self.rates: list[float] = []

    @property
    def rate(self) -> float:
        return median(self.rates)

    def _path(self, number: int) -> str:
        return f"/{self._name}/{'bad' if number < self._bad else 'good'}/{number}"

    async def subscribe(self, refused: str | None) -> None:
        """The bad ones hang, or have an address where nobody listens."""
        for number in range(CONSUMERS):
            bad = number < self._bad
            url = refused if refused and bad else self._consumer.url(self._path(number))
            view, _ = await self._hub.subscribers.create(
                Subscriber(name=f"consumer {number}", url=url, event_type="slow.test", format="raw")
            )
            if bad and self._name == WITHOUT:
                await self._hub.subscribers.pause(view.id)

    async def measure(self) -> None:
        """Messages to the good ones, by the second from the publish to the last delivery."""
        good = range(self._bad, CONSUMERS)
        events = MESSAGES // len(good)
        began = time.monotonic()
        await self._hub.publish_many({"type": "slow.test", "payload": number} for number in range(events))
        self._published += events
        taken = [self._consumer.taken.setdefault(self._path(number), {}) for number in good]
        await until(lambda: all(len(one) == self._published for one in taken), 60.0, "the deliveries of the good ones")
        last = max(next(reversed(one.values())).began for one in taken)
        self.rates.append(events * len(good) / (last - began))


def _answer(arrival: Arrival) -> int | None:
    return None if "/bad/" in arrival.path else 200


async def _compare(
    urls: dict[str, str], nursery: Nursery, say: Say, what: str, *, bad: int, least: float, refused: str | None = None
) -> None:
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(Consumer(_answer))
        sites: dict[str, Site] = {}
        for name, url in urls.items():
            site = sites[name] = Site(name, await stack.enter_async_context(open_store(url)), consumer, bad)
            await site.subscribe(refused)
            nursery.spawn("hub_process", name, url=url)
            await site.measure()  # to get warm; those that hang hang from here on
            site.rates.clear()
        share = 0.0
        for turn in range(MOST_TURNS):
            for site in sites.values() if turn % 2 else reversed(sites.values()):
                await site.measure()
            pairs = zip(sites[WITH].rates, sites[WITHOUT].rates, strict=True)
            share = median(rate / without for rate, without in pairs)
            if turn >= TURNS - 1 and share >= least:
                break
        say(f"{what}: {sites[WITH].rate:.0f} messages/s, {sites[WITHOUT].rate:.0f} without, {share:.1%}")
        assert share >= least, f"{sites[WITH].rates} with them, {sites[WITHOUT].rates} without"
        if refused is None:
            assert {arrival.path for arrival in consumer.open} == {f"/with/bad/{number}" for number in range(bad)}
    assert nursery.errors() == ""


@pytest.mark.parametrize("bad", [1, 30])
@pytest.mark.timeout(300)
async def test_consumers_that_hang_delay_nobody_else(
    urls: dict[str, str], nursery: Nursery, say: Say, bad: int
) -> None:
    await _compare(urls, nursery, say, f"{bad} of {CONSUMERS} hang", bad=bad, least=LEAST[bad])


@pytest.mark.timeout(300)
async def test_a_consumer_that_refuses_connections_delays_nobody_else(
    urls: dict[str, str], nursery: Nursery, say: Say
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    what = f"1 of {CONSUMERS} refuses"
    await _compare(urls, nursery, say, what, bad=1, least=LEAST_WITH_REFUSALS, refused=refused)
