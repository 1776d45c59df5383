"""Webhooks keep the order of their keys although consumers fail and the processes that send them are killed."""

import asyncio
import random
import signal
import time
from typing import Any

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store import open_store
from eventhub.store.messages import DeadFilter
from eventhub.testing.torture.children import Child, Nursery
from tests.crash.conftest import Say
from tests.crash.consumer import Arrival, Consumer
from tests.crash.hub_process import LOCAL, SECRET

KEYS = 20
PUBLISHERS = 4
FAILING = 0.2
PATIENCE = 200.0
PATIENT: dict[str, Any] = {"retry_backoff_seconds": (0.01,) * 50, "max_in_flight": 100, "format": "ce-binary"}
"""So many short waits that none dies: not of the consumer's failures, nor of lost dispatchers."""
SHARED, OWN = "/shared", "/own"


def key_of(arrival: Arrival) -> str:
    return str(arrival.payload["shared" if arrival.path == SHARED else "own"])


def failing(chance: random.Random) -> Any:
    """Answers soon, now and then a little later; a fifth of all fail."""
    loop = asyncio.get_running_loop()

    def behave(arrival: Arrival) -> int | None:
        status = 500 if chance.random() < FAILING else 200
        if chance.random() < 0.9:
            return status
        loop.call_later(chance.uniform(0, 0.02), arrival.reply, status)
        return None

    return behave


class Publisher:
    """Publishes in the order of ``number``; its own keys are nobody else's, the shared ones are everybody's."""

    def __init__(self, url: str, number: int, each: int, chance: random.Random) -> None:
        self._url, self._number, self._chance = url, number, chance
        self._own = [f"own-{n}" for n in range(KEYS) if n % PUBLISHERS == number]
        self._count = KEYS * each // PUBLISHERS
        self.acknowledged: list[int] = []

    def _event(self, turn: int) -> dict[str, Any]:
        shared = f"shared-{(turn + self._number) % KEYS}"
        own, place = self._own[turn % len(self._own)], turn // len(self._own)
        payload = {"shared": shared, "own": own, "place": place, "publisher": self._number, "turn": turn}
        return {"type": "order.test", "payload": payload, "ordering_key": shared}

    async def run(self) -> None:
        async with open_store(self._url) as store:
            hub = Hub(store, secret=SECRET, roles=())
            turn = 0
            while turn < self._count:
                size = min(self._chance.choice((1, 3, 20, 60)), self._count - turn)
                events = [self._event(turn + n) for n in range(size)]
                self.acknowledged += await hub.publish_many(events)
                turn += size


async def _subscribe(url: str, consumer: Consumer) -> None:
    async with open_store(url) as store:
        book = Hub(store, secret=SECRET, allow_private=LOCAL, roles=()).subscribers
        await book.create(Subscriber(name="shared", url=consumer.url(SHARED), ordering_key="ordering_key", **PATIENT))
        await book.create(Subscriber(name="own", url=consumer.url(OWN), ordering_key="payload.own", **PATIENT))


class Reaper:
    """Keeps processes running, and kills one now and then."""

    def __init__(self, nursery: Nursery, url: str, processes: int, chance: random.Random) -> None:
        self._nursery, self._url, self._chance = nursery, url, chance
        self._crew = [self._spawn(number) for number in range(processes)]

    def _spawn(self, number: int) -> Child:
        return self._nursery.spawn("hub_process", f"hub-{number}", url=self._url)

    async def reap(self, consumer: Consumer, total: int, kills: int) -> None:
        """So many kills, spread over the work; each is replaced at once. At the end everything is delivered."""
        end = time.monotonic() + PATIENCE
        for kill in range(1, kills + 2):
            while consumer.delivered < total * kill // (kills + 1):
                assert time.monotonic() < end, f"{consumer.delivered} of {total} delivered after {kill - 1} kills"
                await asyncio.sleep(0.005)
            if kill <= kills:
                number = self._chance.randrange(len(self._crew))
                self._crew[number].kill()
                await self._crew[number].ended()
                self._crew[number] = self._spawn(number)

    async def stop(self) -> None:
        for child in self._crew:
            child.send(signal.SIGTERM)
        for child in self._crew:
            await child.ended()


def _check(consumer: Consumer, publishers: list[Publisher], each: int) -> None:
    assert consumer.violations == []
    acknowledged = sorted(number for publisher in publishers for number in publisher.acknowledged)
    assert len(acknowledged) == KEYS * each
    for path in (SHARED, OWN):
        places = {place: came for place, came in consumer.first.items() if place[0] == path}
        assert len(places) == KEYS
        assert {len(came) for came in places.values()} == {each}
        events = sorted(int(a.headers["ce-id"]) for a in consumer.taken[path].values())
        assert events == acknowledged, "each was delivered, and nothing else"
    for (path, key), came in consumer.first.items():
        numbers = [int(arrival.headers["ce-id"]) for arrival in came]
        assert numbers == sorted(numbers), f"{path} {key}: not in the order of the events"
        if path == OWN:
            assert [arrival.payload["place"] for arrival in came] == list(range(each))
        for publisher in range(PUBLISHERS):
            turns = [arrival.payload["turn"] for arrival in came if arrival.payload["publisher"] == publisher]
            assert turns == sorted(turns), f"{path} {key}: publisher {publisher} was overtaken by itself"


async def _run(url: str, nursery: Nursery, seed: int, say: Say, *, each: int, processes: int, kills: int) -> None:
    chance = random.Random(seed)
    total = 2 * KEYS * each
    async with Consumer(failing(chance), key_of=key_of) as consumer:
        await _subscribe(url, consumer)
        began = time.monotonic()
        publishers = [Publisher(url, number, each, random.Random(seed + number)) for number in range(PUBLISHERS)]
        reaper = Reaper(nursery, url, processes, chance)
        async with asyncio.TaskGroup() as tasks:
            for publisher in publishers:
                tasks.create_task(publisher.run())
            tasks.create_task(reaper.reap(consumer, total, kills))
        took = time.monotonic() - began
        await reaper.stop()
        requests, again = len(consumer.arrivals), len(consumer.arrivals) - total
        say(f"{requests} requests ({again} again), {kills} kills, {took:.1f} s, {total / took:.0f} messages/s")
        _check(consumer, publishers, each)
    async with open_store(url) as store:
        assert await store.count_dead(DeadFilter()) == 0
        assert await store.next_due() is None, "nothing is left"
    assert nursery.errors() == ""


@pytest.mark.timeout(240)
async def test_order_outlasts_failing_consumers_and_thirty_kills(
    postgres_url: str, nursery: Nursery, seed: int, say: Say
) -> None:
    await _run(postgres_url, nursery, seed, say, each=500, processes=3, kills=30)


@pytest.mark.timeout(240)
async def test_order_outlasts_failing_consumers_and_kills_on_sqlite(
    sqlite_path: Any, nursery: Nursery, seed: int, say: Say
) -> None:
    await _run(f"sqlite:///{sqlite_path}", nursery, seed, say, each=200, processes=1, kills=12)
