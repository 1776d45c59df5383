"""Event Hub itself, spoken to as any other system: EventQueue and EventManager with their defaults.

The manager works with the queue that is open already, as most peers' workers do with their pool. What is left is
counted in its table, as for the peers: `EventQueue.stats` says it too, but reads the log for times and rates. Only the
driver of the engine is imported, as in any program that uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any, ClassVar

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak
from eventhub.bench.settings import TYPE
from eventhub.core.events import QueuedEvent
from eventhub.queue import EventManager, EventQueue


class EventHub(Peer):
    packages: ClassVar = ("eventhub", "asyncpg", "apsw")
    settings = "defaults; an async handler"

    _queue: EventQueue
    _looking: Any

    async def prepare(self) -> None:
        self._queue = EventQueue(self.url)
        await self._queue.store.open()
        self._looking = None
        if "://" in self.url:
            from eventhub.store.postgres.connection import connect

            self._looking = await connect(self.url)

    async def ready(self) -> None:
        """Two claims and a settlement are on their way at once: their connections are open, as those of others are."""
        await asyncio.gather(*(self._queue.store.event(0) for _ in range(3)))

    async def close(self) -> None:
        if self._looking is not None:
            await self._looking.close()
        await self._queue.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._queue.publish(TYPE, payload)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._queue.publish_many(TYPE, payloads)

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
        if self._looking is not None:
            return int(await self._looking.fetchval("SELECT count(*) FROM eventhub.deliveries"))
        import apsw

        with closing(apsw.Connection(self.url)) as looking:
            ((found,),) = looking.execute("SELECT count(*) FROM eventhub_deliveries")
        return int(found)


if __name__ == "__main__":
    speak(EventHub())
