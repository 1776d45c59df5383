"""The life of the demo's hub: who subscribes, who works, what is published, and what goes wrong on purpose.

shipping   takes orders of each customer in order; busy now and then
billing    takes invoices
audit      refuses one customer for good: the key is parked, and waits for an operator
legacy     is down: its circuit opens
news       is paused
oncall     hears the hub's own news
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from eventhub.cli.demo.consumer import Arrival, Consumer
from eventhub.client import ClaimedEvent, Client, Worker
from eventhub.client.subscribing import SubscriberOptions
from eventhub.core.outcomes import HandlerResult, PermanentError, Success, TransientError
from eventhub.errors import ServerUnavailable

__all__ = ["answer", "keep_house", "publish", "subscribe", "workers"]

CUSTOMERS: Final = ("anna", "ben", "carla", "dave", "emil", "fay", "gina", "hugo")
REFUSED: Final = "carla"
NOBODY: Final = "nobody"
SCANS: Final = range(3)
PAUSE: Final = 0.4
"""Seconds between two orders."""
SUBSCRIBERS: Final[dict[str, SubscriberOptions]] = {
    "shipping": {
        "event_type": "order.*",
        "ordering_key": "payload.customer",
        "retry_backoff_seconds": (1.0, 5.0, 30.0),
        "description": "Parcels, each customer's in order",
    },
    "billing": {"event_type": "invoice.*", "description": "Invoices"},
    "audit": {
        "event_type": "order.placed",
        "ordering_key": "payload.customer",
        "on_dead": "park",
        "retry_backoff_seconds": (1.0,),
        "description": f"Refuses {REFUSED}: the key is parked until somebody acts",
    },
    "legacy": {"event_type": "order.shipped", "retry_backoff_seconds": (2.0, 10.0, 60.0), "description": "Is down"},
    "news": {"event_type": "order.placed", "description": "Paused by an operator"},
    "oncall": {"event_type": "hub.*.*", "description": "The hub's own news"},
}
_chance = random.Random(6)  # noqa: S311 - a demo


def answer(arrival: Arrival) -> int:
    """What the consumer of a webhook says."""
    if arrival.name == "legacy":
        return 500
    if arrival.name == "audit" and arrival.data["customer"] == REFUSED:
        return 422
    if arrival.name == "shipping" and _chance.random() < 0.1:  # noqa: PLR2004 - one in ten
        return 503
    return 204


async def subscribe(client: Client, consumer: Consumer) -> None:
    for name, options in SUBSCRIBERS.items():
        made = await client.create_subscriber(name, f"{consumer.url}/{name}", **options)
        consumer.expect(name, made.secret)
        if name == "news":
            await client.pause_subscriber(made.id, reason="they move to another data centre")


async def keep_house(client: Client) -> None:
    """What waits for somebody: a job whose worker went silent, work that nobody takes, a parked key, a dead mail."""
    await client.publish(title="Nightly backup", tags="backup", payload={"disk": "sda"})
    await client.take("backup", "night-worker", lease=3600)
    await client.publish_many(
        {"title": f"Scan {number}", "tags": "scan", "payload": {"n": number}} for number in range(3)
    )


def workers(url: str) -> Iterator[Worker]:
    for name in ("mailer-1", "mailer-2"):
        yield Worker(url, "email", _mail, worker_id=name, concurrency=3, shutdown_timeout=2)
    yield Worker(url, "report", _report, worker_id="reporter-1", concurrency=1, shutdown_timeout=2)


async def _mail(event: ClaimedEvent) -> HandlerResult:
    await asyncio.sleep(_chance.uniform(0.02, 0.3))
    if event.payload["to"] == NOBODY:
        return PermanentError("mailer", "550 5.1.1 no such user")
    if _chance.random() < 0.05:  # noqa: PLR2004 - one in twenty
        return TransientError("mailer", "421 4.3.2 the server is busy, try later")
    return Success()


async def _report(_: ClaimedEvent) -> HandlerResult:
    await asyncio.sleep(_chance.uniform(0.5, 4.0))
    return Success()


async def publish(client: Client) -> None:
    """Orders without end; a hub that is away for a moment is waited for."""
    number = 1000
    while True:
        with suppress(ServerUnavailable):
            await client.publish_many(_order(number))
        number += 1
        await asyncio.sleep(PAUSE * _chance.uniform(0.3, 1.7))


def _order(number: int) -> Iterator[dict[str, Any]]:
    """An order with what follows from it: a broadcast, a mail, sometimes an invoice or a report."""
    customer = _chance.choice(CUSTOMERS)
    facts = {"order": number, "customer": customer, "total": round(_chance.uniform(5, 300), 2)}
    step = _chance.choices(("placed", "paid", "shipped"), (5, 3, 2))[0]
    yield {"event_type": f"order.{step}", "payload": facts, "ordering_key": customer}
    to = NOBODY if _chance.random() < 0.02 else customer  # noqa: PLR2004 - one in fifty
    title = f"Order {number} was {step}"
    yield {"title": title, "tags": "email", "payload": {"to": to, "order": number}, "ordering_key": customer}
    if step == "paid":
        yield {"event_type": "invoice.due", "payload": facts}
    if number % 20 == 0:
        yield {"title": f"Report up to order {number}", "tags": "report", "payload": {"until": number}}
