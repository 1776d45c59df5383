"""Operators act while deliveries fly: nothing is lost, nothing is overtaken, and what they say is done."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store import Store
from eventhub.store.messages import DeadFilter
from eventhub.testing.torture.children import until
from tests.crash.consumer import Arrival, Consumer
from tests.hub.conftest import SECRET

SOON = 40.0
KEYS = 8
EAGER: dict[str, Any] = {
    "ordering_key": "ordering_key",
    "event_type": "load.test",
    "format": "ce-binary",
    "retry_backoff_seconds": (0.0,) * 50,
}


def event_of(arrival: Arrival) -> int:
    return int(arrival.headers["ce-id"])


def key_of(arrival: Arrival) -> str:
    return arrival.headers["ce-partitionkey"]


class Unreliable:
    """A tenth of the requests fail; what is poison is refused as often as it is to be."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        self._refused: Counter[tuple[str, int]] = Counter()

    def __call__(self, arrival: Arrival) -> int | None:
        place = arrival.path, arrival.message
        status = 500 if self._chance.random() < 0.1 else 200
        if self._refused[place] < arrival.payload.get("refuse", 0):
            self._refused[place] += 1
            status = 400
        asyncio.get_running_loop().call_later(self._chance.uniform(0, 0.004), arrival.reply, status)
        return None


@pytest.fixture
async def consumer() -> AsyncIterator[Consumer]:
    async with Consumer(Unreliable(), key_of=key_of) as running:
        yield running
        assert running.violations == []


@pytest.fixture
async def rival(store_url: str, stack: AsyncExitStack) -> Hub:
    """Another hub, with connections of its own, as another process would have them."""
    return await stack.enter_async_context(Hub(store_url, secret=SECRET, allow_private=["127.0.0.0/8"]))


class Load:
    """Publishes over some keys until it has published so many; every ``poisoned``-th is refused once."""

    def __init__(self, hub: Hub, count: int, *, poisoned: int = 0) -> None:
        self._hub, self._count, self._poisoned = hub, count, poisoned
        self.ids: list[int] = []
        self.poison: dict[int, str] = {}

    async def run(self) -> None:
        while len(self.ids) < self._count:
            events = [self._event(len(self.ids) + number) for number in range(10)]
            ids = await self._hub.publish_many(events)
            self.poison |= {
                number: event["ordering_key"]
                for number, event in zip(ids, events, strict=True)
                if event["payload"]["refuse"]
            }
            self.ids += ids
            await asyncio.sleep(0.005)

    def _event(self, number: int) -> dict[str, Any]:
        refuse = int(self._poisoned > 0 and number % self._poisoned == self._poisoned - 1)
        return {"type": "load.test", "payload": {"refuse": refuse}, "ordering_key": f"key-{number % KEYS}"}


def in_order(consumer: Consumer, path: str, ids: list[int]) -> None:
    for (where, key), came in consumer.first.items():
        if where == path:
            numbers = [event_of(arrival) for arrival in came]
            assert numbers == sorted(numbers), f"{path} {key}"
    assert sorted(event_of(a) for a in consumer.taken[path].values()) == sorted(ids), "each was delivered"


async def idle(store: Store, subscriber: int) -> None:
    while (await store.subscriber_stats(subscriber)).processing:  # noqa: ASYNC110 - the database tells nobody
        await asyncio.sleep(0.005)


async def _open(store: Store, subscriber: int) -> int:
    """What is waiting or under way: a message in the air may fail yet, and wait for an hour."""
    stats = await store.subscriber_stats(subscriber)
    return stats.pending + stats.processing


# ------------------------------------------------------------ pause and resume


async def test_a_pause_holds_and_goes_on_where_it_was(hub: Hub, rival: Hub, store: Store, consumer: Consumer) -> None:
    held, _ = await hub.subscribers.create(Subscriber(name="held", url=consumer.url("/held"), **EAGER))
    await hub.subscribers.create(Subscriber(name="other", url=consumer.url("/other"), **EAGER))
    load = Load(hub, 600)
    loading = asyncio.create_task(load.run())
    for turn in range(3):
        await until(lambda: len(consumer.at("/held")) > 100 * turn, SOON, "some deliveries")  # noqa: B023
        await hub.subscribers.pause(held.id)
        await idle(store, held.id)
        before, others = len(consumer.at("/held")), len(consumer.at("/other"))
        (late,) = await hub.publish_many([{"type": "load.test", "payload": {}, "ordering_key": "late"}])
        load.ids.append(late)
        await until(
            lambda: late in map(event_of, consumer.at("/other")) and len(consumer.at("/other")) > others,  # noqa: B023
            SOON,
            "what goes on beside it",
        )
        assert len(consumer.at("/held")) == before, "it was paused"
        await hub.subscribers.resume(held.id)
    await loading
    await until(lambda: consumer.delivered == 2 * len(load.ids), SOON, "all deliveries")
    in_order(consumer, "/held", load.ids)
    in_order(consumer, "/other", load.ids)
    assert await store.count_dead(DeadFilter()) == 0


# ----------------------------------------------------- retry, skip and unpark


async def test_parked_keys_are_retried_skipped_and_unparked_while_others_fly(
    hub: Hub, rival: Hub, store: Store, consumer: Consumer
) -> None:
    """A key whose head failed waits for an hour, unless somebody says otherwise; one whose head is dead, for ever."""
    patient = {**EAGER, "on_dead": "park", "retry_backoff_seconds": (3600.0,) * 50}
    view, _ = await hub.subscribers.create(Subscriber(name="one", url=consumer.url("/one"), **patient))
    load = Load(hub, 400, poisoned=9)
    loading = asyncio.create_task(load.run())
    chance, done = random.Random(3), dict[str, set[int]]()
    acts = {"retry": store.retry_key, "skip": store.skip_key, "unpark": store.unpark_key}
    end = time.monotonic() + SOON
    while not loading.done() or await _open(store, view.id) or await store.blocked_keys(view.id):
        assert time.monotonic() < end, f"{done} of {load.poison}"
        for blocked in await store.blocked_keys(view.id):
            if blocked.parked:
                act = chance.choice(list(acts))
                assert await acts[act](view.id, blocked.key, by="operator"), act
                done.setdefault(act, set()).add(blocked.event_id)
            elif blocked.next_retry_at is not None:
                assert await store.retry_key(view.id, blocked.key, by="operator")
        await asyncio.sleep(0.005)
    await loading
    assert set(done) == set(acts)
    assert set().union(*done.values()) == set(load.poison), "each poison parked its key, and nothing else"
    dropped = done["skip"] | done["unpark"]
    wanted = [number for number in load.ids if number not in dropped]
    await until(lambda: consumer.delivered == len(wanted), SOON, "all deliveries")
    in_order(consumer, "/one", wanted)
    letters = (await store.dead_letters(DeadFilter(limit=1000))).letters
    assert {letter.id for letter in letters} == dropped, "what was given up can still be seen"
    assert await store.blocked_keys(view.id) == []


# ---------------------------------------------------------- dead letter queue


async def test_a_dead_head_that_is_retried_comes_back_to_its_place(
    hub: Hub, rival: Hub, store: Store, consumer: Consumer
) -> None:
    """Its successors have gone on; from its return on, it goes before whatever of its key has not."""
    await hub.subscribers.create(Subscriber(name="one", url=consumer.url("/one"), **EAGER))
    load = Load(hub, 400, poisoned=40)
    loading = asyncio.create_task(load.run())
    revived: dict[int, float] = {}
    end = time.monotonic() + SOON
    while not loading.done() or len(revived) < len(load.poison):
        assert time.monotonic() < end, f"{revived} of {load.poison}"
        for letter in (await store.dead_letters(DeadFilter())).letters:
            assert await store.retry_dead([letter.delivery_id], by="operator") == {letter.delivery_id}
            revived[letter.id] = time.monotonic()
        await asyncio.sleep(0.005)
    await loading
    await until(lambda: consumer.delivered == len(load.ids), SOON, "all deliveries")
    in_order(consumer, "/one", load.ids)
    assert set(revived) == set(load.poison)
    for number, since in revived.items():
        _comes_next(consumer, number, load.poison[number], since)
    assert await store.count_dead(DeadFilter()) == 0


def _comes_next(consumer: Consumer, number: int, key: str, since: float) -> None:
    """After its revival at most one later message of its key began before it: the one whose turn it was."""
    came = [arrival for arrival in consumer.arrivals if key_of(arrival) == key]
    again = [place for place, arrival in enumerate(came) if event_of(arrival) == number and arrival.status != 400]
    between = {event_of(arrival) for arrival in came[: again[0]] if arrival.began > since}
    between = {passing for passing in between if passing > number}  # older ones that came back as well go before it
    assert len(between) <= 1, f"{number} of {key} was passed by {between}"
    rest = [event_of(arrival) for arrival in came[again[0] :]]
    assert rest[0] == number
