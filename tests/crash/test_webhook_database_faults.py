"""A database that goes away under load: publishing and delivering go on by themselves, and nothing is lost."""

import asyncio
import os
import random
import signal
import time
from typing import Any

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.errors import StoreError
from eventhub.hub import Hub
from eventhub.store import open_store
from eventhub.store.messages import DeadFilter
from eventhub.testing.torture.children import Nursery, until
from eventhub.testing.torture.proxy import Proxy
from tests.crash.conftest import Say
from tests.crash.consumer import Arrival, Consumer
from tests.crash.hub_process import LOCAL, SECRET
from tests.postgres_cluster import PostgresCluster

pytestmark = [pytest.mark.alone]

OUTAGE = float(os.environ.get("EVENTHUB_OUTAGE_SECONDS", "2"))
OUTAGES = 2
LOAD_SECONDS = 1.0
RECOVERY_SECONDS = 20.0
KEYS = 20
ORDERED, PLAIN = "/ordered", "/plain"


def key_of(arrival: Arrival) -> str | None:
    return str(arrival.payload["key"]) if arrival.path == ORDERED else None


class Load:
    """Publishers that repeat what was not acknowledged, under the same idempotency key, until it is."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._chance = url, random.Random(seed)
        self.acknowledged: list[int] = []
        self.refused = 0
        self._stopping = False

    async def publisher(self, name: str) -> None:
        async with open_store(self._url) as store:
            hub, turn = Hub(store, secret=SECRET, roles=()), 0
            while not self._stopping:
                events = [self._event(name, turn + number) for number in range(self._chance.randint(1, 10))]
                self.acknowledged += await self._until_acknowledged(hub, events)
                turn += len(events)
                await asyncio.sleep(0.02)

    async def _until_acknowledged(self, hub: Hub, events: list[dict[str, Any]]) -> list[int]:
        while True:
            try:
                return await hub.publish_many(events)
            except StoreError:
                self.refused += 1
                await asyncio.sleep(0.05)

    def _event(self, name: str, turn: int) -> dict[str, Any]:
        key = f"key-{self._chance.randrange(KEYS)}"
        return {
            "type": "fault.test",
            "payload": {"key": key, "publisher": name, "turn": turn},
            "ordering_key": key,
            "idempotency_key": f"{name}-{turn}",
        }

    def stop(self) -> None:
        self._stopping = True


async def _subscribe(url: str, consumer: Consumer) -> None:
    async with open_store(url) as store:
        book = Hub(store, secret=SECRET, allow_private=LOCAL, roles=()).subscribers
        common: dict[str, Any] = {"retry_backoff_seconds": (0.05,) * 20, "format": "ce-binary"}
        await book.create(Subscriber(name="ordered", url=consumer.url(ORDERED), ordering_key="ordering_key", **common))
        await book.create(Subscriber(name="plain", url=consumer.url(PLAIN), **common))


@pytest.mark.timeout(300)
async def test_everything_resumes_after_the_database_was_away(
    durable_postgres: PostgresCluster, durable_postgres_url: str, nursery: Nursery, seed: int, say: Say
) -> None:
    url, recoveries = durable_postgres_url, []
    async with Consumer(key_of=key_of) as consumer:
        await _subscribe(url, consumer)
        load = Load(url, seed)
        crew = [nursery.spawn("hub_process", name, url=url) for name in ("hub-a", "hub-b")]
        publishers = [asyncio.create_task(load.publisher(f"publisher-{number}")) for number in range(3)]
        for _ in range(OUTAGES):
            before = consumer.delivered
            await until(lambda: consumer.delivered > before + 200, RECOVERY_SECONDS, "some work")  # noqa: B023
            await asyncio.to_thread(durable_postgres.stop, "immediate")
            await asyncio.sleep(OUTAGE)
            await asyncio.to_thread(durable_postgres.start)
            back = time.monotonic()
            for path in (ORDERED, PLAIN):
                await until(
                    lambda: any(a.began > back and a.path == path for a in reversed(consumer.arrivals)),  # noqa: B023
                    RECOVERY_SECONDS,
                    f"new requests to {path}",
                )
            recoveries.append(time.monotonic() - back)
        await asyncio.sleep(LOAD_SECONDS)
        load.stop()
        await asyncio.gather(*publishers)
        stopped = time.monotonic()
        total = len(load.acknowledged)
        await until(lambda: consumer.delivered >= 2 * total, 90.0, "all deliveries")
        say(
            f"{total} events, {load.refused} times refused, at work again after at most {max(recoveries):.1f} s, "
            f"drained in {time.monotonic() - stopped:.1f} s, "
            f"{len(consumer.arrivals) - 2 * total} requests for the second time"
        )
        for path in (ORDERED, PLAIN):
            events = sorted(int(arrival.headers["ce-id"]) for arrival in consumer.taken[path].values())
            assert events == sorted(load.acknowledged), f"{path}: each acknowledged event once, and nothing else"
        assert consumer.violations == []
        for child in crew:
            assert child.alive
            child.send(signal.SIGTERM)
        for child in crew:
            await child.ended()
    async with open_store(url) as store:
        assert await store.count_dead(DeadFilter()) == 0
        assert await store.next_due() is None, "nothing is left"
    assert nursery.errors() == ""


# ------------------------------------------------------------- lost replies

CLAIM = b"\x00\x00\x00\x08\x40\x10\x00\x00\x00\x00\x00\x00"
"""A part of the request for messages: the share of first attempts, a number that nothing else asks with."""


async def test_messages_whose_claim_was_lost_on_its_way_need_not_wait_for_their_lease(nursery: Nursery) -> None:
    """Their lease is a minute; and what is under way meanwhile is not disturbed."""
    with PostgresCluster(tcp=True) as cluster:
        assert cluster.port is not None
        async with Proxy(cluster.port) as proxy, Consumer() as consumer:
            url = cluster.tcp_url().replace(f":{cluster.port}/", f":{proxy.port}/")
            async with open_store(cluster.url()) as store, Hub(url, secret=SECRET, allow_private=LOCAL):
                hub = Hub(store, secret=SECRET, allow_private=LOCAL, roles=())
                fields: dict[str, Any] = {"ordering_key": "ordering_key", "timeout_seconds": 60.0, "max_in_flight": 3}
                slow, _ = await hub.subscribers.create(Subscriber(name="slow", url=consumer.url("/slow"), **fields))
                view, _ = await hub.subscribers.create(Subscriber(name="one", url=consumer.url("/one"), **fields))
                consumer.behave = lambda arrival: None if arrival.path == "/slow" else 200
                await hub.subscribers.pause(view.id)
                await hub.publish_many({"type": "a", "payload": n, "ordering_key": str(n % 3)} for n in range(9))
                await until(lambda: len(consumer.arrivals) == 3, 20.0, "the slow ones")
                while (await store.subscriber_stats(view.id)).behind < 6:  # noqa: ASYNC110 - the database tells nobody
                    await asyncio.sleep(0.01)
                proxy.cut(CLAIM)
                await hub.subscribers.resume(view.id)
                await until(lambda: proxy.cuts == 1, 20.0, "the cut")
                assert (await store.subscriber_stats(view.id)).processing == 3, "the claim did happen"
                for arrival in consumer.at("/slow"):
                    assert arrival.open
                    arrival.reply()
                consumer.behave = lambda _: 200
                await until(lambda: consumer.delivered == 18, 20.0, "all deliveries")
                assert len(consumer.arrivals) == 18, "each once"
                assert (await store.subscriber_stats(slow.id)).failed_last_hour == 0
