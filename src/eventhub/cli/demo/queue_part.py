"""Part 2: work that processes share – order within a key even through a failure, and no doubles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from eventhub.core.events import QueuedEvent
from eventhub.core.outcomes import HandlerResult, Success, TransientError
from eventhub.queue import EventManager, EventQueue

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

QUEUE: Final = "orders"
CUSTOMERS = ("anna", "ben")
STEPS = ("placed", "paid", "shipped")


class Orders:
    """A handler that fails once, and remembers in which order it did its work."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.done: dict[str, list[str]] = {customer: [] for customer in CUSTOMERS}

    async def handle(self, event: QueuedEvent) -> HandlerResult:
        customer, step = event.payload["customer"], event.payload["step"]
        if (customer, step, event.attempts) == ("anna", "paid", 1):
            self._stage.narrator.bad(f"{customer}: {step} failed, to be tried again; what follows for anna waits")
            return TransientError("orders", "the bank is closed")
        self.done[customer].append(step)
        self._stage.handled.add(event.id)
        self._stage.narrator.good(f"{customer}: {step}" + (" (second attempt)" if event.attempts > 1 else ""))
        return Success()


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "2. Work shared by processes: EventQueue and EventManager",
        "Each event goes to one worker at a time. Events with the same ordering key keep their order,",
        "even when one of them fails; other keys do not wait for it.",
    )
    queue = EventQueue(stage.store, queue=QUEUE, retry_after=timedelta(seconds=0.4))
    orders = Orders(stage)
    manager = EventManager(queue, concurrency=4)
    manager.register("orders", "order.*", orders.handle)
    ids = await queue.publish_many(
        {"type": f"order.{step}", "payload": {"customer": customer, "step": step}, "ordering_key": customer}
        for step in STEPS
        for customer in CUSTOMERS
    )
    stage.book(QUEUE, ids)
    with stage.narrator.waiting("Working …"):
        async with manager:
            await stage.settled(*ids)
    stage.expect(
        "Every customer's events were handled in their order",
        kept=all(tuple(steps) == STEPS for steps in orders.done.values()),
    )
    await _publish_twice(stage, queue)
    await queue.close()


async def _publish_twice(stage: Stage, queue: EventQueue) -> None:
    stage.narrator.say("A sender that does not know whether it was heard sends again, with the same idempotency key:")
    payload = {"customer": "anna", "step": "placed"}
    first = await queue.publish("order.placed", payload, idempotency_key="order-7")
    again = await queue.publish("order.placed", payload, idempotency_key="order-7")
    stage.book(QUEUE, [first.id])
    stage.expect(f"Both calls were answered with event {first.id}: there is only one", kept=first.id == again.id)
    stage.duplicates_stopped += 1
    manager = EventManager(queue)
    manager.register("orders", "order.*", Orders(stage).handle)
    await manager.run_until_empty()
