"""What a reader of the guides has before them: a hub in use, with a subscriber in trouble."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from eventhub import EventBus, RetryPolicy
from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.hub.fan_out import FanOut
from eventhub.hub.numbers import Numbers
from eventhub.store import Store, open_store
from eventhub.store.messages import MessageClaim, WantedMessages, routes_of
from eventhub.store.values import Report

ADDRESS = "https://203.0.114.7/hook"
LATER = timedelta(hours=1)


def shop(path: Path) -> dict[str, str]:
    """Make the hub; returns what the ids of the guides are in it.

    Shipping's messages are delivered, dead, and held: the keys ada and bob by a failed one, eve by a dead one.
    """
    return {"4127": str(asyncio.run(_shop(path)))}


async def _shop(path: Path) -> int:
    async with EventBus(path, retry=RetryPolicy(max_retries=0)) as bus:
        bus.subscribe("user.*", lambda event: None)
        bus.subscribe("report.*", lambda event: 1 / 0)
        await bus.publish("user.created", {"name": "Ada"})
        await bus.publish("report.due", {"month": 1})
    wanted = Subscriber(
        name="shipping", url=ADDRESS, event_type="order.*", ordering_key="payload.customer", on_dead="park"
    )
    async with Hub(str(path), roles=()) as hub:
        subscriber, _ = await hub.subscribers.create(wanted)
        customers = ["ada", "ada", "bob", "eve", "eve", "kim", "lou"]
        events = {await hub.publish("order.placed", {"customer": one, "n": n}): one for n, one in enumerate(customers)}
    async with open_store(str(path)) as store:
        await FanOut(store, Numbers()).hand_out()
        claims = await store.claim_messages([WantedMessages(subscriber.id, 10)], worker="d", lease=LATER)
        of = {events[claim.event_id]: claim for claim in claims}
        await _end(store, of["ada"], Retry("HTTP 503", LATER))
        await _end(store, of["bob"], Retry("HTTP 503", LATER))
        await _end(store, of["eve"], Bury("HTTP 500", reason="retries_exhausted"))
        await _end(store, of["kim"], Complete(status_code=200))
        await _end(store, of["lou"], Bury("HTTP 500", reason="retries_exhausted"))
        return of["lou"].held.id


async def _end(store: Store, claim: MessageClaim, outcome: Outcome) -> None:
    detail = json.dumps({"url": ADDRESS, "status": getattr(outcome, "status_code", None), "total_ms": 12.5})
    (settled,) = await store.settle([Report(claim.held, outcome, detail=detail, again=routes_of(claim.subscriber)[1])])
    assert settled.accepted
