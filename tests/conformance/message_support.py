"""Short words for tests of messages: make some, take them, and let their attempts end one way or the other."""

from datetime import datetime
from typing import Any

from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.core.strict_json import dump
from eventhub.store import Store
from eventhub.store.messages import Message, MessageClaim, MessageFilter, WantedMessages, routes_of
from eventhub.store.values import NewEvent, Report, Route
from tests.conformance.hub_support import plan
from tests.conformance.support import MINUTE, START, seconds


async def send(
    store: Store,
    *subscribers: int,
    count: int = 1,
    key: str | None = None,
    parks: bool = False,
    now: datetime | None = START,
    **fields: Any,
) -> list[int]:
    """Broadcast events and hand them out to these; the ids of the messages, by event and then by subscriber."""
    fields = {"type": "order.placed", "work": False, "broadcast": True, "payload": dump({"n": 1}), **fields}
    event = NewEvent(route=Route("work"), ordering_key=key, **fields)
    published = await store.publish([event] * count, now=now)
    max_attempts = fields.get("max_attempts", 4)
    keyed = await plan(store, *subscribers, keyed=key is not None, parks=parks, max_attempts=max_attempts)
    while (await store.fan_out(keyed, now=now)).more:
        pass
    made = [await store.messages(MessageFilter(event_id=each.id)) for each in published]
    return [message.id for messages in made for message in reversed(messages)]


async def take(store: Store, *subscribers: int, most: int = 100, now: datetime | None = START) -> list[MessageClaim]:
    """Claim what is ready, once what is due was tended.

    A claim that finds nothing is tried once more: only the next one looks for what another process has freed.
    """
    await store.tend(now=now)
    wanted = [WantedMessages(number, most) for number in subscribers]
    claims = await store.claim_messages(wanted, worker="dispatcher-a", lease=MINUTE, now=now)
    return claims or await store.claim_messages(wanted, worker="dispatcher-a", lease=MINUTE, now=now)


async def end(
    store: Store, claim: MessageClaim, outcome: Outcome, *, took: float | None = 12.5, now: datetime | None = START
) -> bool:
    """Report how an attempt went, as the dispatcher does; whether the report was accepted."""
    detail = None if took is None else dump({"attempt": claim.attempts, "total_ms": took})
    report = Report(claim.held, outcome, detail=detail, again=routes_of(claim.subscriber)[1])
    return (await store.settle([report], now=now))[0].accepted


async def deliver(store: Store, claim: MessageClaim, **rest: Any) -> bool:
    return await end(store, claim, Complete(status_code=200), **rest)


async def fail(store: Store, claim: MessageClaim, error: str = "boom", *, after: float = 60, **rest: Any) -> bool:
    return await end(store, claim, Retry(error, seconds(after)), **rest)


async def bury(store: Store, claim: MessageClaim, error: str = "boom", **rest: Any) -> bool:
    return await end(store, claim, Bury(error), **rest)


async def kill(store: Store, subscriber: int, *, now: datetime | None = START, **details: Any) -> int:
    """A message that dies at its first attempt."""
    (number,) = await send(store, subscriber, now=now, **details)
    (claim,) = await take(store, subscriber, now=now)
    assert claim.held.id == number
    assert await bury(store, claim, now=now)
    return number


async def seen(store: Store, message_id: int) -> Message:
    """The message, which must be there."""
    message = await store.message(message_id)
    assert message is not None
    return message


async def drained(store: Store, *subscribers: int, now: datetime | None = START) -> list[int]:
    """Deliver everything that is ready, round by round; the ids in the order in which they went out."""
    order: list[int] = []
    while claims := await take(store, *subscribers, now=now):
        for claim in claims:
            assert await deliver(store, claim, now=now)
            order.append(claim.held.id)
    return order
