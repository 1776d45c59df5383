"""A plain script with the bus inside: handlers in this process, events in one SQLite file, nothing else to run.

    pip install eventhub
    python examples/embedded_bus.py [shop.db]

Kill it in the middle and start it again: what was published and not handled is handled then. A handler may see an
event twice for that reason; the guard lets the mail go out once all the same.
"""

from __future__ import annotations

import asyncio
import sys

from eventhub import DLQInspector, Event, EventBus, IdempotencyGuard, RetryPolicy


async def main(path: str) -> None:
    stock, sent = {"tea": 2}, asyncio.Event()
    async with EventBus(path, retry=RetryPolicy(max_retries=2, base_delay=0.1), retry_scope="handler") as bus:
        guard = IdempotencyGuard(bus.store)

        @bus.on("order.*")
        async def reserve(event: Event) -> None:
            item = event.payload["item"]
            if not stock.get(item):
                raise LookupError(f"there is no {item}")
            stock[item] -= 1
            await bus.publish("mail.due", {"about": item}, wait=False)

        @bus.on("mail.*")
        async def mail(event: Event) -> None:
            if await guard(event, "mail"):
                print("mail:", event.payload["about"], "is reserved")
            if event.payload["about"] == "coffee":
                sent.set()

        await bus.publish("order.placed", {"item": "tea"})  # returns when its handlers are done
        dead = await bus.publish("order.placed", {"item": "coffee"})  # … or have failed for good

        dlq = DLQInspector(bus.store)
        letter = await dlq.get(dead)
        print(f"given up after {len(letter.errors)} attempts: {letter.errors[-1]}")
        stock["coffee"] = 1  # the cause is mended, so it gets another chance
        await dlq.retry(dead, by="ada")
        await sent.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "shop.db"))
