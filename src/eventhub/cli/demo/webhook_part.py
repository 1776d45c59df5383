"""Part 4: signed webhooks – a consumer that fails now and then, order by customer, a poison event and its way back."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import aiohttp

from eventhub.cli.demo.consumer import UNAUTHORIZED, Arrival, Consumer
from eventhub.cli.demo.stage import PATIENCE, DemoError
from eventhub.cli.output import plain, table
from eventhub.client import Client, CreatedSubscriber, DeadLetterSummary
from eventhub.core.events import Status

if TYPE_CHECKING:
    from rich.table import Table

    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

CUSTOMERS: Final = ("anna", "ben", "carla")
ORDERS: Final = 30
EACH: Final = 7
"""Of so many orders the consumer cannot take one at first."""
WAITS: Final = (0.3, 0.3, 0.3)


class Shop:
    """What the consumer does with what it gets: busy now and then, and with a bug in its invoices."""

    def __init__(self, stage: Stage) -> None:
        self._tell = stage.narrator
        self.invoices_fixed = False

    def answer(self, arrival: Arrival) -> int:
        if arrival.name == "billing":
            return self._invoice(arrival)
        if arrival.turn == 1 and arrival.data["n"] % EACH == EACH // 2:
            self._tell.bad(f"shipping answers 503 to order {arrival.data['n']} of {arrival.data['customer']}")
            return 503
        return 204

    def _invoice(self, arrival: Arrival) -> int:
        if "vat_id" not in arrival.data and not self.invoices_fixed:
            self._tell.bad(f"billing answers 422 to {arrival.type}: it cannot do without a VAT number")
            return 422
        self._tell.good(f"billing took {arrival.type}")
        return 204


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "4. Webhooks: signed, retried, in order",
        "Two subscribers have their own URLs. Every request is signed; here the signatures are checked.",
    )
    shop = Shop(stage)
    async with Consumer(shop.answer) as consumer, Client(stage.hub) as client:
        shipping = await _subscribe(client, consumer, "shipping", "order.*", "payload.customer")
        billing = await _subscribe(client, consumer, "billing", "invoice.*", None)
        stage.subscribers = {shipping.id: "shipping", billing.id: "billing"}
        await _orders(stage, client, consumer)
        await _forgery(stage, consumer)
        await _poison(stage, client, consumer, shop, billing)
        stage.expect(
            f"All {consumer.requests - consumer.refused} requests of the hub were signed as they must be",
            kept=consumer.refused == 1,
        )
        stage.webhooks_refused += consumer.failed


async def _subscribe(
    client: Client, consumer: Consumer, name: str, event_type: str, ordering_key: str | None
) -> CreatedSubscriber:
    made = await client.create_subscriber(
        name,
        f"{consumer.url}/{name}",
        event_type=event_type,
        ordering_key=ordering_key,
        retry_backoff_seconds=WAITS,
    )
    consumer.expect(name, made.secret)
    return made


async def _orders(stage: Stage, client: Client, consumer: Consumer) -> None:
    made = await client.publish_many(
        {"event_type": "order.placed", "payload": {"n": number, "customer": CUSTOMERS[number % len(CUSTOMERS)]}}
        for number in range(ORDERS)
    )
    ids = [one.id for one in made]
    stage.book("webhooks", ids)
    with stage.narrator.waiting("Sending …"):
        came = await consumer.until(lambda: len(consumer.of("shipping")) == ORDERS)
        if came:
            await stage.settled(*ids)
    got: dict[str, list[int]] = defaultdict(list)
    for arrival in consumer.of("shipping"):
        got[arrival.data["customer"]].append(arrival.data["n"])
        stage.handled.add(ids[arrival.data["n"]])
    stage.expect(
        f"shipping has all {ORDERS} orders, {consumer.failed} of them at a second attempt, each customer's in order",
        kept=came and all(each == sorted(set(each)) for each in got.values()),
    )


async def _forgery(stage: Stage, consumer: Consumer) -> None:
    async with (
        aiohttp.ClientSession() as stranger,
        stranger.post(f"{consumer.url}/shipping", json={"type": "order.placed", "data": {"n": 0}}) as answer,
    ):
        stage.expect(
            "A request that the hub did not sign is refused by its signature alone", kept=answer.status == UNAUTHORIZED
        )


async def _poison(stage: Stage, client: Client, consumer: Consumer, shop: Shop, billing: CreatedSubscriber) -> None:
    stage.narrator.say("An event that its consumer cannot read:")
    event = await client.publish(event_type="invoice.due", payload={"order": 12, "net": 40})
    stage.book("webhooks", [event.id])
    with stage.narrator.waiting("Waiting until the hub gives up …"):
        letter = await _dead(client, billing.id)
    stage.expect("It is in the dead letter queue, with the reason", kept=letter.reason == "rejected")
    stage.narrator.show(_dead_table(letter))
    stage.narrator.say("The consumer is mended now, so the event gets another chance (eventhub dlq retry):")
    shop.invoices_fixed = True
    stage.came_back += await client.retry_dead([letter.id])
    with stage.narrator.waiting("Sending again …"):
        came = await consumer.until(lambda: len(consumer.of("billing")) == 1)
    stage.expect("It came back from the dead, and arrived", kept=came)
    await stage.settled(event.id, status=Status.COMPLETED)
    stage.handled.add(event.id)


async def _dead(client: Client, subscriber: int) -> DeadLetterSummary:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        page = await client.dead_letters(subscriber=subscriber)
        if page.dead_letters:
            return page.dead_letters[0]
        await asyncio.sleep(0.05)
    raise DemoError(f"The event is not in the dead letter queue after {PATIENCE:.0f} s.")


def _dead_table(letter: DeadLetterSummary) -> Table:
    rows = table("message", "type", "reason", "error", numbers=("message",))
    rows.add_row(str(letter.id), letter.event_type, letter.reason, plain(letter.error))
    return rows
