"""A key with very many messages waiting behind its dead head costs the other keys nothing.

Two databases of one server, one with such a key and one without, do the same work in turns: ABBA…, medians compared.
"""

import asyncio
import os
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

WAITING = int(os.environ.get("EVENTHUB_HOT_KEY", "20000"))
LEAST = 0.9
"""Of the rate without the hot key."""
TURNS = 5
MOST_TURNS = 12 * TURNS
"""A machine that has other things to do, too, gets more of them before it is judged."""
BURST = 1000
KEYS = 100
HOT = "hot"
DATABASES = ("with_hot_key", "without_hot_key")


@pytest.fixture
def urls(postgres: PostgresCluster) -> Iterator[tuple[str, str]]:
    postgres.start()
    hot, cold = (postgres.create_database(name) for name in DATABASES)
    yield hot, cold
    for name in DATABASES:
        postgres.drop_database(name)


def _answer(arrival: Arrival) -> int:
    return 400 if arrival.payload == HOT else 200


class Site:
    """A database with one subscriber, served by one process."""

    def __init__(self, store: Store, consumer: Consumer, path: str) -> None:
        self._consumer, self._path = consumer, path
        self.store = store
        self.hub = Hub(store, secret=SECRET, allow_private=LOCAL, roles=())
        self.rates: list[float] = []
        self._subscriber = 0

    async def subscribe(self) -> None:
        subscriber = Subscriber(
            name="one",
            url=self._consumer.url(self._path),
            event_type="hot.test",
            ordering_key="ordering_key",
            on_dead="park",
            format="raw",
            max_in_flight=100,
        )
        view, _ = await self.hub.subscribers.create(subscriber)
        self._subscriber = view.id

    async def heat(self, count: int) -> None:
        """Let so many messages of one key wait behind its first, which is dead."""
        for _ in range(0, count, 1000):
            await self.hub.publish_many([{"type": "hot.test", "payload": HOT, "ordering_key": HOT}] * 1000)
        await until(lambda: self._consumer.at(self._path), 60.0, "the first of the hot key")
        end = time.monotonic() + 120.0
        while (await self.store.fanout_waiting(1))[0]:
            assert time.monotonic() < end, "the hot key was not handed out"
        (blocked,) = await self.store.blocked_keys(self._subscriber)
        assert (blocked.key, blocked.parked) == (HOT, True)
        assert blocked.waiting == min(count - 1, 10_000)

    async def measure(self) -> None:
        """Messages a second from the first publish to the last delivery."""
        taken = self._consumer.taken.setdefault(self._path, {})
        before, began = len(taken), time.monotonic()
        for first in range(0, BURST, 250):
            numbers = range(first, first + 250)
            await self.hub.publish_many(
                {"type": "hot.test", "payload": number, "ordering_key": f"key-{number % KEYS}"} for number in numbers
            )
        await until(lambda: len(taken) == before + BURST, 60.0, f"{BURST} deliveries")
        self.rates.append(BURST / (max(arrival.began for arrival in taken.values()) - began))


@pytest.mark.timeout(600)
async def test_other_keys_keep_their_rate_beside_a_hot_one(
    postgres: PostgresCluster, urls: tuple[str, str], nursery: Nursery, say: Say
) -> None:
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(Consumer(_answer))
        sites = []
        for url, path in zip(urls, ("/with", "/without"), strict=True):
            site = Site(await stack.enter_async_context(open_store(url)), consumer, path)
            await site.subscribe()
            nursery.spawn("hub_process", path.strip("/"), url=url)
            sites.append(site)
        hot, cold = sites
        await hot.heat(WAITING)
        for database in DATABASES:  # as happens by itself now and then: the statistics know hardly any other key
            await asyncio.to_thread(postgres.execute, "ANALYZE", database=database)
        for site in sites:
            await site.measure()  # to get warm
            site.rates.clear()
        share = 0.0
        for turn in range(MOST_TURNS):
            for site in sites if turn % 2 else reversed(sites):
                await site.measure()
            share = median(hot.rates) / median(cold.rates)
            if turn >= TURNS - 1 and share >= LEAST:
                break
        say(
            f"{WAITING:,} waiting: {median(hot.rates):.0f} messages/s beside them, {median(cold.rates):.0f} without, "
            f"{share:.1%}"
        )
        assert share >= LEAST, f"{hot.rates} beside the hot key, {cold.rates} without"
    assert nursery.errors() == ""
