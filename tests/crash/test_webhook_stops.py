"""Processes that are told to stop, or killed, while requests are under way."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store import Store, open_store
from eventhub.store.messages import DeadFilter, DeadLetter, Message, MessageFilter
from eventhub.testing.torture.children import Child, Nursery, until
from tests.crash.consumer import Consumer
from tests.crash.hub_process import LOCAL, SECRET

pytestmark = [pytest.mark.alone]

SOON = 30.0
EVENTS = 10


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def hub(store: Store) -> Hub:
    """It publishes and subscribes; the work is done by processes."""
    return Hub(store, secret=SECRET, allow_private=LOCAL, roles=())


@pytest.fixture
async def consumer() -> AsyncIterator[Consumer]:
    """It answers nothing by itself."""
    async with Consumer(lambda _: None) as running:
        yield running


async def _under_way(
    hub: Hub, consumer: Consumer, nursery: Nursery, url: str, *, patience: float = 15.0, more: int = 0, **fields: Any
) -> Child:
    """A process that has sent ten requests and waits for their answers; told to stop, it does so for ``patience``."""
    fields = {"max_in_flight": EVENTS, **fields}
    common = {"event_type": "stop.test", "retry_backoff_seconds": (0.0,) * 3, "timeout_seconds": 60.0}
    await hub.subscribers.create(Subscriber(name="one", url=consumer.url(), **common, **fields))  # type: ignore[arg-type]
    child = nursery.spawn("hub_process", "hub-a", url=url, shutdown_timeout=patience)
    await hub.publish_many({"type": "stop.test", "payload": number} for number in range(EVENTS + more))
    await until(lambda: len(consumer.arrivals) == EVENTS, SOON, f"{EVENTS} requests")
    return child


async def _messages(store: Store) -> list[Message]:
    return await store.messages(MessageFilter(limit=100))


async def _letters(store: Store, count: int) -> list[DeadLetter]:
    end = time.monotonic() + SOON
    while len(letters := (await store.dead_letters(DeadFilter())).letters) < count:
        assert time.monotonic() < end, f"{len(letters)} dead letters instead of {count}: {await _messages(store)}"
        await asyncio.sleep(0.01)
    return letters


async def _actions(store: Store, message: Message) -> list[str]:
    return [str(entry.action) for entry in await store.log(message.event_id)]


# -------------------------------------------------------------------- SIGTERM


async def test_sigterm_lets_requests_end_and_takes_no_more(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery
) -> None:
    child = await _under_way(hub, consumer, nursery, store_url, more=EVENTS)
    child.send(signal.SIGTERM)
    await until(lambda: any(r.op == "stopping" for r in nursery.records("hub-a*")), SOON, "the word of it")
    for arrival in consumer.open:
        assert child.alive, "requests are under way"
        arrival.reply()
    await child.ended()
    assert len(consumer.arrivals) == EVENTS, "it went on claiming"
    sent = {arrival.message for arrival in consumer.arrivals}
    messages = await _messages(store)
    assert len(messages) == 2 * EVENTS
    for message in messages:
        expected = (Status.COMPLETED, 1) if message.id in sent else (Status.PENDING, 0)
        assert (message.status, message.attempts) == expected
    assert [r.op for r in nursery.records("hub-a*")] == ["ready", "stopping", "end"]
    assert nursery.errors() == ""


async def test_sigterm_gives_requests_back_uncharged_that_take_too_long(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery
) -> None:
    child = await _under_way(hub, consumer, nursery, store_url, patience=0.3)
    child.send(signal.SIGTERM)
    await child.ended(10.0)
    await until(lambda: not consumer.open, SOON, "the end of all connections")
    for message in await _messages(store):
        assert (message.status, message.attempts, message.retry_count) == (Status.PENDING, 0, 0)
        assert (await _actions(store, message))[-2:] == ["PICKED", "RELEASED"]

    consumer.behave = lambda _: 200
    nursery.spawn("hub_process", "hub-b", url=store_url)
    await until(lambda: consumer.delivered == EVENTS, SOON, "deliveries")
    assert {a.message for a in consumer.arrivals[:EVENTS]} == {a.message for a in consumer.arrivals[EVENTS:]}
    await until_complete(store, EVENTS)
    assert {message.attempts for message in await _messages(store)} == {1}
    assert nursery.errors() == ""


async def until_complete(store: Store, count: int) -> None:
    end = time.monotonic() + SOON
    while sum(message.status is Status.COMPLETED for message in await _messages(store)) < count:
        assert time.monotonic() < end, f"not complete: {await _messages(store)}"
        await asyncio.sleep(0.01)


async def test_a_second_sigterm_ends_a_process_without_an_api_at_once(
    store_url: str, store: Store, consumer: Consumer, nursery: Nursery
) -> None:
    secret = nursery.directory / "secret"
    hub = Hub(store, secret=secret, allow_private=LOCAL, roles=())
    await hub.subscribers.create(Subscriber(name="one", url=consumer.url(), timeout_seconds=60.0))
    child = nursery.spawn(
        "server", "hub-a", url=store_url, secret=str(secret), roles="fanout,dispatcher", shutdown_seconds=60.0
    )
    await hub.publish("stop.test", 1)
    await until(lambda: consumer.open, SOON, "a request")
    child.send(signal.SIGTERM)
    await asyncio.sleep(0.2)
    assert child.alive, "a request is under way"
    child.send(signal.SIGTERM)
    await child.ended(5.0)


# ------------------------------------------------------------------- SIGKILL


async def test_what_a_killed_process_had_sent_is_sent_again_under_the_same_id(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery
) -> None:
    """Answered well, but nobody wrote it down: the process was stopped before it could read the answer."""
    child = await _under_way(hub, consumer, nursery, store_url)
    child.send(signal.SIGSTOP)
    for arrival in consumer.open:
        arrival.reply()
    child.kill()
    await child.ended()
    consumer.behave = lambda _: 200
    nursery.spawn("hub_process", "hub-b", url=store_url)
    await until(lambda: len(consumer.arrivals) == 2 * EVENTS, SOON, "the same requests")
    assert {a.message for a in consumer.arrivals[:EVENTS]} == {a.message for a in consumer.arrivals[EVENTS:]}
    await until_complete(store, EVENTS)
    for message in await _messages(store):
        assert (message.attempts, message.retry_count) == (2, 1)
        assert (await _actions(store, message))[-4:] == ["PICKED", "ABANDONED", "PICKED", "COMPLETED"]


# --------------------------------------------------------------- at most once


@pytest.mark.parametrize("answered", [False, True], ids=["unanswered", "answered"])
async def test_at_most_once_is_one_request_also_after_a_kill(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery, *, answered: bool
) -> None:
    child = await _under_way(hub, consumer, nursery, store_url, guarantee="at_most_once")
    child.send(signal.SIGSTOP)
    if answered:
        for arrival in consumer.open:
            arrival.reply()
    child.kill()
    await child.ended()
    await _dead_after_one_request(store_url, store, hub, consumer, nursery)


async def test_at_most_once_is_one_request_also_after_sigterm(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery
) -> None:
    child = await _under_way(hub, consumer, nursery, store_url, patience=0.3, guarantee="at_most_once")
    child.send(signal.SIGTERM)
    await child.ended(10.0)
    await _dead_after_one_request(store_url, store, hub, consumer, nursery)
    assert nursery.errors() == ""


async def test_at_most_once_is_one_request_also_when_it_fails(
    store_url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery
) -> None:
    await _under_way(hub, consumer, nursery, store_url, guarantee="at_most_once")
    for number, arrival in enumerate(consumer.open):
        if number % 2:
            arrival.reply(500)
        else:
            arrival.cut()
    letters = await _letters(store, EVENTS)
    assert len(consumer.arrivals) == EVENTS
    assert {letter.reason for letter in letters} == {"retries_exhausted"}


async def _dead_after_one_request(url: str, store: Store, hub: Hub, consumer: Consumer, nursery: Nursery) -> None:
    """Somebody finds what was left; nothing of it is sent again, and what comes after it is sent."""
    consumer.behave = lambda _: 200
    nursery.spawn("hub_process", "hub-b", url=url)
    letters = await _letters(store, EVENTS)
    assert {(letter.reason, letter.attempts) for letter in letters} == {("worker_lost", 1)}
    after = await hub.publish("stop.test", "after")
    await until(lambda: len(consumer.arrivals) > EVENTS, SOON, "the request after it")
    assert len({arrival.message for arrival in consumer.arrivals}) == len(consumer.arrivals) == EVENTS + 1
    assert [m.event_id for m in await _messages(store) if m.status is not Status.FAILED] == [after]
