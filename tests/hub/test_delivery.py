"""From a publisher to a consumer and back: what arrives, what follows each answer, and what is kept of it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from eventhub.core.events import Status
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.store.messages import DeadFilter, MessageFilter
from tests.hub.conftest import QUICK, MakeHub, MakeReceiver, Subscribe
from tests.hub.receiver import Arrival, Receiver


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    async with asyncio.timeout(seconds):
        while not (value := await condition()):  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.005)
    return value


async def status(hub: Hub, event_id: int) -> Status:
    event = await hub.store.event(event_id)
    assert event is not None
    return event.status


async def settled(hub: Hub, event_id: int) -> Status:
    async def ended() -> Status | None:
        now = await status(hub, event_id)
        return now if now not in (Status.PENDING, Status.PROCESSING) else None

    found: Status = await until(ended)
    return found


async def test_a_webhook_arrives_signed_and_its_event_is_complete(hub: Hub, receiver: Receiver) -> None:
    view, secret = await hub.subscribers.create(
        Subscriber(name="one", url=receiver.url, headers={"X-Env": "test", "Authorization": "Bearer t"})
    )
    event = await hub.publish("order.paid", {"id": 7, "text": "ü"})
    (arrival,) = await receiver.wait_for(1)
    Webhook(secret).verify(arrival.body.decode(), arrival.headers)
    assert arrival.data == {"id": 7, "text": "ü"}
    assert arrival.headers["x-env"] == "test"
    assert arrival.headers["authorization"] == "Bearer t"
    assert arrival.headers["accept-encoding"] == "identity"
    assert await settled(hub, event) is Status.COMPLETED
    (message,) = await hub.store.messages(MessageFilter(event_id=event))
    (attempt,) = await hub.store.attempts(message.id)
    assert attempt.detail["status"] == 200
    assert attempt.detail["request_headers"]["authorization"] == "***"
    assert "Bearer" not in str(attempt.detail)
    assert attempt.detail["total_ms"] >= attempt.detail["first_byte_ms"] > 0
    assert attempt.detail["connect_ms"] >= 0
    assert (await hub.store.subscriber_stats(view.id)).delivered_last_hour == 1


async def test_a_failure_is_tried_again_under_the_same_id_with_a_new_signature(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    receiver.behave = lambda arrival: 503 if arrival.turn < 3 else 204
    await subscribe()
    event = await hub.publish("a", 1)
    first, second, third = await receiver.wait_for(3)
    assert first.id == second.id == third.id
    assert await settled(hub, event) is Status.COMPLETED
    (message,) = await hub.store.messages(MessageFilter(event_id=event))
    assert (message.attempts, message.retry_count) == (3, 2)
    assert [a.detail["status"] for a in await hub.store.attempts(message.id)] == [503, 503, 204]


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (500, ("retries_exhausted", 3)),
        (429, ("retries_exhausted", 3)),
        (400, ("rejected", 1)),
        (302, ("rejected", 1)),
        (404, ("rejected", 1)),
    ],
)
async def test_what_cannot_be_delivered_is_a_dead_letter_with_all_that_happened(
    hub: Hub, receiver: Receiver, subscribe: Subscribe, answer: int, end: tuple[str, int]
) -> None:
    reason, requests = end
    receiver.behave = lambda _: answer
    number = await subscribe()
    event = await hub.publish("a", {"x": 1})
    assert await settled(hub, event) is Status.FAILED
    (letter,) = (await hub.store.dead_letters(DeadFilter(subscriber=number))).letters
    assert (letter.reason, letter.attempts, len(letter.errors)) == (reason, requests, requests)
    assert letter.consumer is not None
    assert letter.consumer["url"] == receiver.url
    assert letter.payload == {"x": 1}
    assert len(receiver.arrivals) == requests
    await hub.subscribers.update(number, {"url": f"{receiver.url}/elsewhere"})
    (again,) = (await hub.store.dead_letters(DeadFilter(subscriber=number))).letters
    assert again.consumer == letter.consumer


async def test_an_answer_may_be_anything_and_is_still_kept(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    receiver.behave = lambda _: web.Response(status=200, body=b"\x00\xff\xfe" + b"a" * 20_000)
    number = await subscribe()
    event = await hub.publish("a", 1)
    assert await settled(hub, event) is Status.COMPLETED
    (message,) = await hub.store.messages(MessageFilter(event_id=event))
    (attempt,) = await hub.store.attempts(message.id)
    assert attempt.detail["response_body"].startswith("\ufffd\ufffd\ufffda")
    assert len(attempt.detail["response_body"]) == 16_384
    assert (await hub.store.subscriber_stats(number)).latency_p50_ms is not None


async def test_some_dead_and_some_delivered_is_completed_with_errors(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    receiver.behave = lambda arrival: 400 if arrival.path == "/bad" else 200
    await subscribe("good")
    await subscribe("bad", url=receiver.url.replace("/hook", "/bad"))
    event = await hub.publish("a", 1)
    assert await settled(hub, event) is Status.COMPLETED_WITH_ERRORS


async def test_gone_disables_the_subscriber_and_holds_what_follows(
    hub: Hub, receiver: Receiver, make_receiver: MakeReceiver, subscribe: Subscribe
) -> None:
    receiver.behave = lambda _: 410
    number = await subscribe(event_type="a")
    news = await make_receiver()
    await hub.subscribers.create(Subscriber(name="news", url=news.url, event_type="hub.*.*"))
    event = await hub.publish("a", 1)
    assert await settled(hub, event) is Status.FAILED
    kinds = {msgspec.json.decode(a.body)["type"] for a in await news.wait_for(2)}
    assert kinds == {"hub.subscriber.disabled", "hub.message.dead"}
    view = await hub.subscribers.get(number)
    assert view.status == "disabled"
    held = await hub.publish("a", 2)
    receiver.behave = lambda _: 200
    await hub.subscribers.enable(number)
    assert await settled(hub, held) is Status.COMPLETED
    assert len(receiver.arrivals) == 2


async def test_a_pause_holds_messages_and_loses_none(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    number = await subscribe()
    await hub.subscribers.pause(number)
    events = [await hub.publish("a", n) for n in range(20)]

    async def waiting() -> bool:
        return (await hub.store.subscriber_stats(number)).pending == 20

    await until(waiting)
    assert receiver.arrivals == []
    await hub.subscribers.resume(number)
    await receiver.wait_for(20)
    for event in events:
        assert await settled(hub, event) is Status.COMPLETED


async def test_retry_after_is_waited_for_up_to_the_longest_backoff(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    receiver.behave = lambda _: web.Response(status=429, headers={"Retry-After": "3600"})
    await subscribe(retry_backoff_seconds=(0.0, 100.0))
    event = await hub.publish("a", 1)
    await receiver.wait_for(1)

    async def waiting() -> Any:
        (message,) = await hub.store.messages(MessageFilter(event_id=event))
        return message.next_retry_at

    due = await until(waiting)
    assert timedelta(seconds=80) < due - await hub.store.now() < timedelta(seconds=120)


async def test_at_most_once_is_one_request(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    receiver.behave = lambda _: 500
    await subscribe(guarantee="at_most_once")
    event = await hub.publish("a", 1)
    assert await settled(hub, event) is Status.FAILED
    assert len(receiver.arrivals) == 1


async def test_no_more_at_once_than_the_subscriber_takes(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    async def slowly(_: Arrival) -> int:
        await asyncio.sleep(0.02)
        return 200

    receiver.behave = slowly
    await subscribe(max_in_flight=3)
    await hub.publish_many({"type": "a", "payload": n} for n in range(30))
    await receiver.wait_for(30)
    assert receiver.most_at_once == 3


async def test_no_faster_than_the_subscriber_takes(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    await subscribe(rate_per_second=20)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await hub.publish_many({"type": "a", "payload": n} for n in range(50))
    await receiver.wait_for(50)
    assert loop.time() - began >= 1.4


async def test_a_consumer_that_keeps_failing_is_left_alone_and_comes_back(
    make_hub: MakeHub, receiver: Receiver, make_receiver: MakeReceiver
) -> None:
    hub = await make_hub(settings=QUICK)
    receiver.behave = lambda _: 500
    subscriber = Subscriber(name="one", url=receiver.url, event_type="a", retry_backoff_seconds=(0.0,) * 40)
    view, _ = await hub.subscribers.create(subscriber)
    news = await make_receiver()
    await hub.subscribers.create(Subscriber(name="news", url=news.url, event_type="hub.subscriber.recovered"))
    event = await hub.publish("a", 1)

    async def is_open() -> bool:
        return (await hub.subscribers.get(view.id)).circuit == "open"

    await until(is_open)
    tried = len(receiver.arrivals)
    receiver.behave = lambda _: 200
    assert await settled(hub, event) is Status.COMPLETED
    assert len(receiver.arrivals) <= tried + 1
    await news.wait_for(1)
    assert not await is_open()


async def test_targets_get_it_and_no_other(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    await subscribe("one")
    two = await subscribe("two", event_type="never", url=receiver.url.replace("hook", "two"))
    event = await hub.publish("a", 1, to=[two])
    assert await settled(hub, event) is Status.COMPLETED
    assert [arrival.path for arrival in receiver.arrivals] == ["/two"]


async def test_a_parked_key_is_told_and_goes_on_when_somebody_acts(
    hub: Hub, receiver: Receiver, make_receiver: MakeReceiver, subscribe: Subscribe
) -> None:
    receiver.behave = lambda arrival: 400 if arrival.data == 0 else 200
    number = await subscribe(event_type="a", ordering_key="ordering_key", on_dead="park")
    news = await make_receiver()
    await hub.subscribers.create(Subscriber(name="news", url=news.url, event_type="hub.key.parked"))
    events = [await hub.publish("a", n, ordering_key="k") for n in range(3)]
    (told,) = await news.wait_for(1)
    assert told.data["ordering_key"] == "k"
    (key,) = await hub.store.blocked_keys(number)
    assert (key.key, key.parked, key.waiting) == ("k", True, 2)
    assert await hub.store.unpark_key(number, "k", by="me")
    assert await settled(hub, events[2]) is Status.COMPLETED
    assert [arrival.data for arrival in receiver.arrivals] == [0, 1, 2]


async def test_news_about_news_is_not_told(hub: Hub, receiver: Receiver, subscribe: Subscribe) -> None:
    receiver.behave = lambda _: 400
    await subscribe()
    await hub.publish("a", 1)
    await receiver.wait_for(2)  # the event, and the news of its death, which dies as well

    async def both() -> bool:
        return (await hub.store.dead_letters(DeadFilter())).total == 2

    await until(both)
    assert await hub.store.announce_dead(lambda letters: [], limit=10) in (0, 1)
    assert len(receiver.arrivals) == 2


async def test_a_claim_that_would_end_before_the_answer_is_given_back_and_not_sent(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subscriber, "lease", timedelta(seconds=5))  # of ten that a request may take
        number = await subscribe()
        event = await hub.publish("a", 1)

        async def given_back() -> bool:
            return any(entry.action == "RELEASED" for entry in await hub.store.log(event))

        await until(given_back)
    assert not receiver.arrivals
    await hub.subscribers.update(number, {"description": "its lease is read again"})
    assert await settled(hub, event) is Status.COMPLETED
    (message,) = await hub.store.messages(MessageFilter(event_id=event))
    assert (message.attempts, len(receiver.arrivals)) == (1, 1)


async def test_a_request_that_may_have_arrived_is_an_attempt_that_is_kept(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    """The second message goes over the connection of the first, which breaks when it is there."""
    await subscribe()
    assert await settled(hub, await hub.publish("a", 1)) is Status.COMPLETED

    def cut(arrival: Arrival) -> int:
        if arrival.turn == 1:
            arrival.cut()
        return 200

    receiver.behave = cut
    event = await hub.publish("a", 2)
    assert await settled(hub, event) is Status.COMPLETED
    (message,) = await hub.store.messages(MessageFilter(event_id=event))
    attempts = await hub.store.attempts(message.id)
    assert [attempt.action for attempt in attempts] == ["FAILED", "COMPLETED"]
    assert attempts[0].detail["failure"] == "network"
    assert len(receiver.arrivals) == 1 + len(attempts)


async def test_the_ordering_key_of_a_message_is_that_of_its_subscriber_before_and_after(
    hub: Hub, receiver: Receiver, subscribe: Subscribe
) -> None:
    """One subscriber reads the key from the payload, another takes the publisher's, a third wants no order."""
    receiver.behave = lambda arrival: 503 if arrival.turn == 1 else 200
    for name, key in (("path", "payload.customer"), ("own", "ordering_key"), ("none", None)):
        await subscribe(name, ordering_key=key, retry_backoff_seconds=(0.3, 0.3))
    event = await hub.publish("a", {"customer": "c-7"}, ordering_key="publisher's")

    async def keys() -> dict[int, str | None]:
        return {message.subscriber: message.ordering_key for message in await hub.store.messages(MessageFilter())}

    await receiver.wait_for(3)
    before = await keys()
    assert list(before.values()).count("c-7") == 1
    assert await settled(hub, event) is Status.COMPLETED
    assert await keys() == before
