"""A hub with two subscribers and messages in every state, made as the fan-out and a dispatcher would."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.hub.fan_out import FanOut
from eventhub.hub.numbers import Numbers
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.messages import MessageClaim, WantedMessages, routes_of
from eventhub.store.values import Report
from tests.cli.support import Command

ADDRESS = "https://203.0.114.7/hook"


class Mailed:
    """What `mail` made, by name."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.billing = self.shipping = 0
        self.secret = ""
        self.event = 0
        self.delivered = self.dead = self.waiting = self.pending = 0
        """Messages to billing."""
        self.parked = self.behind = self.held = 0
        """Messages to shipping: the dead head of the key a and the one behind it; the failed head of the key b."""


def mail(eventhub: Command, url: str) -> Mailed:
    """Billing gets invoices in any order; shipping gets orders one after the other for each customer, and parks."""
    made = Mailed(url)
    add = ("subscribers", "add", "--db", url, "--url", ADDRESS)
    billing = eventhub.json(*add, "billing", "--event-type", "invoice.*", "--header", "authorization=Bearer top")
    made.billing, made.secret = billing["id"], billing["secret"]
    ordered = ("--ordering-key", "payload.customer", "--on-dead", "park")
    made.shipping = eventhub.json(*add, "shipping", "--event-type", "order.*", *ordered)["id"]
    asyncio.run(_send(made))
    return made


async def _send(made: Mailed) -> None:
    async with open_store(made.url) as store:
        invoices = [await _broadcast(store, "invoice.paid", {"n": n}) for n in range(4)]
        orders = [await _broadcast(store, "order.placed", {"customer": customer}) for customer in "aab"]
        await FanOut(store, Numbers()).hand_out()
        claims = {claim.event_id: claim for claim in await _take(store, made.billing, made.shipping)}
        ends: list[tuple[int, Outcome]] = [
            (invoices[0], Complete(status_code=200)),
            (invoices[1], Bury("HTTP 404: [red]not here[/red] \x1b[31m", reason="rejected")),
            (invoices[2], Retry("HTTP 503", timedelta(hours=1))),
            (orders[0], Bury("HTTP 500", reason="retries_exhausted")),
            (orders[2], Retry("HTTP 500", timedelta(hours=1))),
        ]
        for event_id, outcome in ends:
            await _end(store, claims[event_id], outcome)
        made.delivered, made.dead, made.waiting = (claims[each].held.id for each in invoices[:3])
        made.parked, made.held = claims[orders[0]].held.id, claims[orders[2]].held.id
        made.event = invoices[0]
        made.pending = await _message_of(store, invoices[3])
        made.behind = await _message_of(store, orders[1])


async def _broadcast(store: Store, kind: str, payload: Any) -> int:
    event = Composer("work").one(kind, payload, {})
    event.work, event.broadcast = False, True
    (published,) = await store.publish([event])
    return published.id


async def _take(store: Store, billing: int, shipping: int) -> list[MessageClaim]:
    """All but the last invoice."""
    wanted = [WantedMessages(billing, 3), WantedMessages(shipping, 10)]
    return await store.claim_messages(wanted, worker="dispatcher-a", lease=timedelta(minutes=1))


async def _end(store: Store, claim: MessageClaim, outcome: Outcome) -> None:
    detail = json.dumps({"url": ADDRESS, "status": getattr(outcome, "status_code", None), "total_ms": 12.5})
    (settled,) = await store.settle([Report(claim.held, outcome, detail=detail, again=routes_of(claim.subscriber)[1])])
    assert settled.accepted


async def _message_of(store: Store, event_id: int) -> int:
    from eventhub.store.messages import MessageFilter

    (message,) = await store.messages(MessageFilter(event_id=event_id))
    return message.id
