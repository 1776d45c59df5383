"""Event Hub itself, spoken to as any other system: EventQueue and EventManager with their defaults.

The manager works with the queue that is open already, as most peers' workers do with their pool.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak
from eventhub.bench.settings import TYPE
from eventhub.core.events import QueuedEvent, Status
from eventhub.queue import EventManager, EventQueue

OPEN = (Status.PENDING, Status.PROCESSING)


class EventHub(Peer):
    packages: ClassVar = ("eventhub", "asyncpg", "apsw")
    settings = "defaults; an async handler"

    _queue: EventQueue

    async def prepare(self) -> None:
        self._queue = EventQueue(self.url)
        await self._queue.store.open()

    async def close(self) -> None:
        await self._queue.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._queue.publish(TYPE, payload)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._queue.publish_many([{"type": TYPE, "payload": payload} for payload in payloads])

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:
        await self._queue.publish_many(
            [{"type": TYPE, "payload": event, "ordering_key": event["key"]} for event in events]
        )

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        async def handler(event: QueuedEvent) -> None:
            handled(event.payload)

        manager = EventManager(self._queue)
        manager.register("peer", TYPE, handler)
        async with manager:
            yield

    async def waiting(self) -> int:
        depth = (await self._queue.stats()).depth
        return sum(count for status, count in depth.items() if status in OPEN)


if __name__ == "__main__":
    speak(EventHub())
