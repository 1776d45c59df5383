"""A process that publishes and may be killed at any moment; its next life goes on from its history.

Call n of a publisher always publishes the same events. A call whose answer never came is made again when its events
have idempotency keys; else nobody knows whether they are there, and it goes on with the next call. A key belongs to one
publisher, whose calls follow one another: ``n`` in the payloads of a key rises.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from eventhub.client import Client
from eventhub.errors import ServerUnavailable, StoreBusy, StoreUnavailable
from eventhub.hub import Hub
from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.testing.torture.history import Facts, History, Record, hash_of
from eventhub.testing.torture.roles.patience import deafen, opened

Way = Literal["queue", "hub", "http"]
Publish = Callable[["Plan"], Awaitable[list[int]]]

QUEUE: Final = "crash"
TAG: Final = "torture"
ORDERING_KEYS: Final = 30
LIMITS: Final = (None, None, 3, 5)
LARGEST_CALL: Final = 1000
TAIL: Final = 1 << 20
"""Bytes at the end of a history; its last call is in them."""
ENOUGH: Final = "enough"
"""A file that is there while publishers are to wait."""
NO_SECRET: Final = bytes(32)
"""Whoever only publishes needs none."""


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    seed: int
    way: Way = "queue"
    server: str = ""
    sizes: tuple[int, ...] = (1, 1, 1, 1, 3, 7)
    pause: float = 0.1
    """The longest wait between two calls, in seconds."""


class Plan(msgspec.Struct):
    """The events of one call, decided by seed, publisher and number alone."""

    number: int
    events: list[Facts]
    limit: int | None
    keyed: bool
    broadcast: bool = False

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
                "broadcast": self.broadcast,
            }
            for event in self.events
        ]


def plan(arguments: Arguments, publisher: str, number: int) -> Plan:
    choice = random.Random(f"{arguments.seed}/{publisher}/{number}")
    ordered = choice.random() < 0.4
    keyed = ordered or arguments.way == "http" or choice.random() < 0.3
    kind: Facts = {"type": "torture.test"}
    if arguments.way == "http":
        kind = {"event_type": "torture.test"} if choice.random() < 0.5 else {"tags": [TAG]}
    events: list[Facts] = []
    for place in range(choice.choice(arguments.sizes)):
        token = f"{publisher}-{number}-{place}"
        key = f"{publisher}-{choice.randrange(ORDERING_KEYS)}" if ordered else None
        payload = {"token": token, "key": key, "n": number * LARGEST_CALL + place, "text": "x" * choice.randrange(200)}
        event: Facts = {**kind, "payload": payload}
        if keyed:
            event["idempotency_key"] = token
        if key is not None:
            event["ordering_key"] = key
        events.append(event)
    limit = choice.choice(LIMITS) if arguments.way == "queue" else None
    return Plan(number, events, limit, keyed, broadcast=arguments.way == "hub" or "event_type" in kind)


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(publish(arguments, history))


async def publish(arguments: Arguments, history: History) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    publisher, _, life = arguments.process.rpartition(".")
    pauses = random.Random(f"{arguments.seed}/{publisher}/{life}")
    number, answered = last_call(Path(arguments.directory), publisher, int(life))
    async with way_in(arguments) as publish_it:
        if number and not answered and (again := plan(arguments, publisher, number)).keyed:
            await attempt(publish_it, again, publisher, history)
        while not stopping.is_set():
            await room(Path(arguments.directory), stopping)
            number += 1
            await attempt(publish_it, plan(arguments, publisher, number), publisher, history)
            try:
                async with asyncio.timeout(pauses.uniform(0, arguments.pause)):
                    await stopping.wait()
            except TimeoutError:
                continue
    history.note("end")
    deafen()


async def room(directory: Path, stopping: asyncio.Event) -> None:
    """Wait as long as there is more to do than can soon be done."""
    while (directory / ENOUGH).exists() and not stopping.is_set():  # noqa: ASYNC110 - another process decides
        await asyncio.sleep(0.1)


@asynccontextmanager
async def way_in(arguments: Arguments) -> AsyncIterator[Publish]:
    """The function that publishes, by the way that this publisher takes."""
    if arguments.way == "http":
        async with Client(arguments.server, timeout=10.0) as client:
            yield _over_http(client)
        return
    async with opened(open_store(arguments.url)) as store:
        if arguments.way == "hub":
            hub = Hub(store, secret=NO_SECRET, roles=())
            yield lambda planned: hub.publish_many(planned.events)
        else:
            queues = {limit: EventQueue(store, queue=QUEUE, max_attempts=limit) for limit in set(LIMITS)}
            yield lambda planned: into_queue(queues[planned.limit], planned)


async def into_queue(queue: EventQueue, planned: Plan) -> list[int]:
    if len(planned.events) == 1:
        return [(await queue.publish(planned.events[0])).id]
    return await queue.publish_many(planned.events)


def _over_http(client: Client) -> Publish:
    async def call(planned: Plan) -> list[int]:
        if len(planned.events) == 1:
            return [(await client.publish(**planned.events[0])).id]
        return [created.id for created in await client.publish_many(planned.events)]

    return call


def last_call(directory: Path, publisher: str, life: int) -> tuple[int, bool]:
    """The last call of earlier lives, and whether all of its answer was written down; 0 when there was none."""
    while life := life - 1:
        calls = [record for record in _tail(directory / f"{publisher}.{life}.jsonl") if record.op == "publish"]
        if calls:
            batch = calls[-1].batch or ""
            answers = sum(record.kind == "ok" and record.batch == batch for record in calls)
            return int(batch.rpartition("-")[2]), answers == calls[-1].size
    return 0, False


def _tail(path: Path) -> list[Record]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        lines = file.read().splitlines(keepends=True)
    whole = lines[1:] if size > TAIL else lines
    return [msgspec.json.decode(line, type=Record) for line in whole if line.endswith(b"\n")]


async def attempt(publish_it: Publish, planned: Plan, publisher: str, history: History) -> None:
    """Publish until the answer comes; without keys only once, for a second time could make it two."""
    items = planned.items(publisher)
    while True:
        call = history.invoke("publish", items)
        try:
            ids = await publish_it(planned)
        except (StoreUnavailable, StoreBusy, ServerUnavailable) as error:
            call.info(error)
            if not planned.keyed:
                return
            await asyncio.sleep(random.uniform(0.02, 0.1))
        else:
            call.ok([{**item, "id": number} for item, number in zip(items, ids, strict=True)])
            return
