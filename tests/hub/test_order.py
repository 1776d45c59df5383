"""The four ways in which order is lost where it is asked for row by row: none of them loses it here.

same batch             two messages of one key are taken by one claim
failed predecessor     one that waits for its retry is overtaken by its successors
equal timestamps       events of one commit have one time, so time says nothing about their order
racing dispatchers     two claims at once take one message each of the same key
"""

import asyncio
import random
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.hub.dispatcher import Dispatcher
from eventhub.hub.roster import Roster
from eventhub.store import Store
from eventhub.store.messages import BlockedKey
from eventhub.store.values import NewEvent, Route
from eventhub.testing.torture.children import until
from tests.crash.consumer import Arrival, Consumer
from tests.hub.conftest import SECRET

SOON = 30.0
ORDERED: dict[str, Any] = {"ordering_key": "ordering_key", "format": "ce-binary"}


def key_of(arrival: Arrival) -> Hashable:
    return arrival.headers["ce-partitionkey"]


def event_of(arrival: Arrival) -> int:
    return int(arrival.headers["ce-id"])


@pytest.fixture
async def consumer() -> AsyncIterator[Consumer]:
    """It answers nothing by itself."""
    async with Consumer(lambda _: None, key_of=key_of) as running:
        yield running
        assert running.violations == []


@pytest.fixture
async def subscriber(hub: Hub, consumer: Consumer) -> int:
    view, _ = await hub.subscribers.create(
        Subscriber(name="ordered", url=consumer.url(), retry_backoff_seconds=(3600.0,) * 3, **ORDERED)
    )
    return view.id


def events(*keys: str) -> list[dict[str, Any]]:
    return [{"type": "order.test", "payload": number, "ordering_key": key} for number, key in enumerate(keys)]


async def arrived(consumer: Consumer, *wanted: int) -> list[Arrival]:
    """Wait until so many requests have come as events are given; they must be of these events, in any order."""
    await until(lambda: len(consumer.arrivals) >= len(wanted), SOON, f"{len(wanted)} requests")
    assert sorted(map(event_of, consumer.arrivals)) == sorted(wanted)
    return consumer.arrivals


async def another(hub: Hub, consumer: Consumer, key: str) -> int:
    """Publish one more and see it arrive: by then there was a claim that could have taken whatever was ready."""
    (number,) = await hub.publish_many(events(key))
    await until(lambda: number in map(event_of, consumer.arrivals), SOON, f"the request for {number}")
    return number


async def handed_out(store: Store) -> None:
    while (await store.fanout_waiting(1))[0]:  # noqa: ASYNC110 - the database tells nobody
        await asyncio.sleep(0.005)


async def failed_key(store: Store, subscriber: int) -> BlockedKey:
    """The key whose head waits for its retry, once that is written down."""
    async with asyncio.timeout(SOON):
        while not (  # noqa: ASYNC110 - the database tells nobody
            found := [key for key in await store.blocked_keys(subscriber) if key.retry_count]
        ):
            await asyncio.sleep(0.005)
    (blocked,) = found
    return blocked


# ----------------------------------------------------------------- same batch


async def test_of_two_messages_of_a_key_in_one_batch_the_second_waits_for_the_first(
    hub: Hub, store: Store, consumer: Consumer, subscriber: int
) -> None:
    await hub.subscribers.pause(subscriber)
    first, second, other, third = await hub.publish_many(events("a", "a", "b", "a"))
    await handed_out(store)
    await hub.subscribers.resume(subscriber)  # now one claim could bring all four
    await arrived(consumer, first, other)
    more = await another(hub, consumer, "c")
    await arrived(consumer, first, other, more)
    consumer.arrivals[[event_of(a) for a in consumer.arrivals].index(first)].reply()
    await arrived(consumer, first, other, more, second)
    last = await another(hub, consumer, "d")
    await arrived(consumer, first, other, more, second, last)
    next(a for a in consumer.arrivals if event_of(a) == second).reply()
    await arrived(consumer, first, other, more, second, last, third)


# --------------------------------------------------------- failed predecessor


async def test_a_message_that_waits_for_its_retry_holds_those_behind_it(
    hub: Hub, store: Store, consumer: Consumer, subscriber: int
) -> None:
    first, second = await hub.publish_many(events("a", "a"))
    await arrived(consumer, first)
    consumer.arrivals[0].reply(500)
    await failed_key(store, subscriber)
    more = await another(hub, consumer, "b")
    (late,) = await hub.publish_many(events("a"))
    last = await another(hub, consumer, "c")
    await arrived(consumer, first, more, last)
    blocked = await failed_key(store, subscriber)
    assert (blocked.key, blocked.event_id, blocked.waiting) == ("a", first, 2)

    assert await store.retry_key(subscriber, "a", by="me")
    await arrived(consumer, first, more, last, first)
    consumer.arrivals[-1].reply()
    await arrived(consumer, first, more, last, first, second)
    consumer.arrivals[-1].reply()
    await arrived(consumer, first, more, last, first, second, late)
    message = await store.message(consumer.arrivals[-1].message)
    assert message is not None
    assert (message.attempts, message.retry_count) == (1, 0), "waiting costs no attempt"


# ----------------------------------------------------------- equal timestamps


async def test_events_of_one_commit_go_out_in_the_order_of_their_ids(
    hub: Hub, store: Store, consumer: Consumer, subscriber: int
) -> None:
    consumer.behave = lambda _: 200
    numbers = await hub.publish_many(events(*["a"] * 30))
    assert len({event.created_at for n in numbers if (event := await store.event(n)) is not None}) == 1
    await arrived(consumer, *numbers)
    assert list(map(event_of, consumer.arrivals)) == numbers


async def test_a_clock_that_is_set_back_changes_no_order(
    hub: Hub, store: Store, consumer: Consumer, subscriber: int
) -> None:
    consumer.behave = lambda _: 200
    await hub.subscribers.pause(subscriber)
    now, numbers = await store.now(), []
    for back in range(10):
        event = NewEvent(type="order.test", payload="1", route=Route("work"), ordering_key="a")
        event.work, event.broadcast = False, True
        (published,) = await store.publish([event], now=now - timedelta(minutes=back))
        numbers.append(published.id)
    await handed_out(store)
    await hub.subscribers.resume(subscriber)
    await arrived(consumer, *numbers)
    assert list(map(event_of, consumer.arrivals)) == numbers


# --------------------------------------------------------- racing dispatchers


@pytest.fixture
async def rivals(hub: Hub, store_url: str, stack: AsyncExitStack) -> list[Hub]:
    """Two more hubs, each with connections of its own, as other processes would have them; all know each other."""
    hubs = [Hub(store_url, secret=SECRET, allow_private=["127.0.0.0/8"]) for _ in range(2)]
    for one in hubs:
        await stack.enter_async_context(one)
    for roster in map(_roster, (hub, *hubs)):
        while len(roster._workers) < 3:
            roster._see_at = 0.0  # now, not in a few seconds
            await asyncio.sleep(0.01)
    return hubs


def _roster(hub: Hub) -> Roster:
    (dispatcher,) = [loop for loop in hub._crew._loops if isinstance(loop, Dispatcher)]
    return dispatcher._roster


async def test_racing_dispatchers_send_one_of_a_key_at_a_time(
    hub: Hub, rivals: list[Hub], consumer: Consumer, subscriber: int
) -> None:
    keys = [f"key-{n}" for n in range(12)]
    firsts = await hub.publish_many(events(*keys))
    seconds = await hub.publish_many(events(*keys))
    await arrived(consumer, *firsts)
    more = [await another(hub, consumer, f"later-{n}") for n in range(5)]
    came = list(await arrived(consumer, *firsts, *more))
    for arrival in came[:6]:
        arrival.reply()
    freed = [seconds[firsts.index(event_of(arrival))] for arrival in came[:6]]
    await arrived(consumer, *firsts, *more, *freed)
    assert sum(one.numbers.claimed > 0 for one in (hub, *rivals)) > 1, "more than one took part in it"


async def test_order_among_racing_dispatchers_whatever_the_consumer_does(
    hub: Hub, rivals: list[Hub], consumer: Consumer
) -> None:
    chance, loop = random.Random(7), asyncio.get_running_loop()

    def behave(arrival: Arrival) -> None:
        status = 500 if chance.random() < 0.2 else 200
        loop.call_later(chance.uniform(0, 0.005), arrival.reply, status)

    consumer.behave = behave
    await hub.subscribers.create(
        Subscriber(name="ordered", url=consumer.url(), retry_backoff_seconds=(0.0,) * 50, **ORDERED)
    )
    keys = [f"key-{n}" for n in range(8)]
    publishers = [hub, *rivals]
    numbers: list[int] = []
    for turn in range(10):
        numbers += await publishers[turn % 3].publish_many(events(*keys))
    await until(lambda: consumer.delivered == len(numbers), SOON, "all deliveries")
    assert sorted(event_of(came) for first in consumer.first.values() for came in first) == numbers
    for first in consumer.first.values():
        assert list(map(event_of, first)) == sorted(map(event_of, first))
