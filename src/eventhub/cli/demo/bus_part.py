"""Part 1: handlers in this process – globs, retries with backoff, the dead letter queue and the way back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from eventhub.bus import DLQInspector, EventBus
from eventhub.cli.output import json_text, plain, table
from eventhub.core.events import DeadEvent, Event, Status
from eventhub.core.retry import RetryPolicy

if TYPE_CHECKING:
    from rich.table import Table

    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

QUEUE: Final = "shop"
RETRY = RetryPolicy(max_retries=3, base_delay=0.25, multiplier=2.0, jitter=0.1)
SHORT = {"max_retries": 2, "base_delay": 0.1}


class Shop:
    """The handlers of a small shop, one of them unlucky and one of them wrong."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._tell = stage.narrator
        self._payment_began: float | None = None
        self._payment_attempts = 0
        self.invoices_fixed = False

    def subscribe(self, bus: EventBus) -> None:
        bus.subscribe("order.*", self.confirm)
        bus.subscribe("payment.*", self.charge)
        bus.subscribe("invoice.*", self.invoice, retry=SHORT)
        bus.subscribe("refund.*", self.refund, retry=SHORT)

    async def confirm(self, event: Event) -> None:
        self._stage.handled.add(event.id)
        self._tell.good(f"order.* got {event.type} {json_text(event.payload)}: confirmation sent")

    async def charge(self, event: Event) -> None:
        self._payment_attempts += 1
        self._payment_began = self._payment_began or time.monotonic()
        after = f"after {time.monotonic() - self._payment_began:.2f} s"
        if self._payment_attempts <= 2:  # noqa: PLR2004 - it fails twice
            self._tell.bad(f"payment.* attempt {event.attempts} {after}: the provider answers 503")
            raise ConnectionError("the payment provider answers 503")
        self._stage.handled.add(event.id)
        self._tell.good(f"payment.* attempt {event.attempts} {after}: charged")

    async def invoice(self, event: Event) -> None:
        currency = event.payload.get("currency", "EUR") if self.invoices_fixed else event.payload["currency"]
        self._stage.handled.add(event.id)
        self._tell.good(f"invoice.* got {event.type}: invoice over {event.payload['net']} {currency} written")

    async def refund(self, event: Event) -> None:
        raise LookupError(f"there is no order {event.payload['order']}")


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "1. Handlers in your process: EventBus",
        "A shop publishes events; functions subscribe to patterns such as order.* and are called.",
    )
    async with EventBus(stage.store, name=QUEUE, retry=RETRY, retry_scope="handler") as bus:
        shop = Shop(stage)
        shop.subscribe(bus)
        stage.book(QUEUE, [await bus.publish("order.placed", {"order": 1})])
        stage.book(QUEUE, [await bus.publish("order.shipped", {"order": 1})])

        stage.narrator.say("A handler that fails is tried again, after longer and longer waits:")
        with stage.narrator.waiting("Waiting for the retries …"):
            stage.book(QUEUE, [await bus.publish("payment.due", {"order": 1, "amount": 40})])

        stage.narrator.say("Two events that no retry can save, because of a bug and of bad data:")
        with stage.narrator.waiting("Waiting until the hub gives up …"):
            dead = await asyncio.gather(
                bus.publish("invoice.due", {"order": 1, "net": 40}),
                bus.publish("refund.due", {"order": 999}),
            )
        stage.book(QUEUE, dead)
        await _from_the_dead(stage, shop, *dead)


async def _from_the_dead(stage: Stage, shop: Shop, invoice: int, refund: int) -> None:
    dlq = DLQInspector(stage.store)
    page = await dlq.list(queue=QUEUE)
    stage.expect(
        "Both are in the dead letter queue, with the error of every attempt",
        kept={event.id for event in page.events} == {invoice, refund}
        and all(len(event.errors) == event.retry_count for event in page.events),
    )
    stage.narrator.show(_dead_table(page.events))
    stage.narrator.say("The bug is fixed now, so the invoice gets another chance (eventhub dlq retry):")
    shop.invoices_fixed = True
    await dlq.retry(invoice, by="demo")
    await stage.settled(invoice, status=Status.COMPLETED)
    stage.came_back += 1
    stage.narrator.note("The refund stays there until somebody decides about it.")


def _dead_table(events: list[DeadEvent]) -> Table:
    rows = table("id", "type", "payload", "errors, one an attempt", numbers=("id",))
    for event in events:
        rows.add_row(str(event.id), event.type, plain(json_text(event.payload)), plain("\n".join(event.errors)))
    return rows
