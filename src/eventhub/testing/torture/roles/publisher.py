"""A process that publishes and may be killed at any moment; its next life goes on from its history.

Call n of a publisher always publishes the same events. A call whose answer never came is made again when its events
have idempotency keys; else nobody knows whether they are there, and it goes on with the next call.
"""

import asyncio
import random
import signal
from pathlib import Path
from typing import Any

import msgspec

from eventhub.errors import StoreBusy, StoreUnavailable
from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.testing.torture.history import Facts, History, hash_of, read_all

ORDERING_KEYS = 12
LIMITS = (None, None, 3, 5)


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    seed: int
    pause: float = 0.1
    """The longest wait between two calls, in seconds."""


class Plan(msgspec.Struct):
    """The events of one call, decided by seed, publisher and number alone."""

    number: int
    events: list[Facts]
    limit: int | None
    keyed: bool

    def items(self, publisher: str) -> list[Facts]:
        return [
            {
                "batch": f"{publisher}-{self.number}",
                "size": len(self.events),
                "token": event["payload"]["token"],
                "hash": hash_of(event["payload"]),
                "key": event.get("ordering_key"),
                "idempotency": event.get("idempotency_key"),
                "limit": self.limit,
            }
            for event in self.events
        ]


def plan(seed: int, publisher: str, number: int) -> Plan:
    choice = random.Random(f"{seed}/{publisher}/{number}")
    keyed = choice.random() < 0.6
    size = choice.choice((1, 1, 1, 1, 3, 7))
    ordered = choice.random() < 0.4
    events: list[Facts] = []
    for place in range(size):
        token = f"{publisher}-{number}-{place}"
        event: Facts = {"type": "crash.test", "payload": {"token": token, "text": "x" * choice.randrange(200)}}
        if keyed:
            event["idempotency_key"] = token
        if ordered:
            event["ordering_key"] = f"key-{choice.randrange(ORDERING_KEYS)}"
        events.append(event)
    return Plan(number, events, choice.choice(LIMITS), keyed)


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(publish(arguments, history))


async def publish(arguments: Arguments, history: History) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    publisher, _, life = arguments.process.rpartition(".")
    pauses = random.Random(f"{arguments.seed}/{publisher}/{life}")
    number, unfinished = resume(Path(arguments.directory), publisher, arguments.seed)
    async with open_store(arguments.url) as store:
        queues = {limit: EventQueue(store, queue="crash", max_attempts=limit) for limit in set(LIMITS)}
        if unfinished is not None:
            await attempt(queues[unfinished.limit], unfinished, publisher, history)
        while not stopping.is_set():
            number += 1
            planned = plan(arguments.seed, publisher, number)
            await attempt(queues[planned.limit], planned, publisher, history)
            try:
                async with asyncio.timeout(pauses.uniform(0, arguments.pause)):
                    await stopping.wait()
            except TimeoutError:
                continue
    history.note("end")


def resume(directory: Path, publisher: str, seed: int) -> tuple[int, Plan | None]:
    """The last call of earlier lives, and its plan when it has to be made again."""
    records = [r for r in read_all(directory, f"{publisher}.*") if r.op == "publish" and r.batch is not None]
    if not records:
        return 0, None
    last = max(int((r.batch or "").rpartition("-")[2]) for r in records)
    answered = any(r.kind == "ok" and r.batch == f"{publisher}-{last}" for r in records)
    planned = plan(seed, publisher, last)
    return last, planned if planned.keyed and not answered else None


async def attempt(queue: EventQueue, planned: Plan, publisher: str, history: History) -> None:
    """Publish until the answer comes; without keys only once, for a second time could make it two."""
    items = planned.items(publisher)
    while True:
        call = history.invoke("publish", items)
        try:
            if len(planned.events) == 1:
                ids = [(await queue.publish(planned.events[0])).id]
            else:
                ids = await queue.publish_many(planned.events)
        except (StoreUnavailable, StoreBusy) as error:
            call.info(error)
            if not planned.keyed:
                return
            await asyncio.sleep(random.uniform(0.02, 0.1))
        else:
            call.ok([{**item, "id": number} for item, number in zip(items, ids, strict=True)])
            return
