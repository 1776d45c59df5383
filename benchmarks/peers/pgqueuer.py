"""PgQueuer: asyncpg, a connection for each who works at the same time, batches of 500, its settings for autovacuum.

Documentation: https://janbjorge.github.io/pgqueuer/. It has a driver for one connection (AsyncpgDriver, which its
README shows for producers and consumers) and one for a pool (AsyncpgPoolDriver). asyncpg's pool resets a connection
after every call, so each task that publishes keeps one. For the worker its guide to performance names both: a pool for
high throughput, and in its checklist a single connection for the QueueManager. In turns of 20,000 events, drained
beside other work, a single connection gave 6,143, 8,246 and 6,722 a second, and a pool of 5 to 20 gave 4,329, 5,460
and 6,109. So it is a single one. QueueManager.run has batch_size (10 unless told), Durability is durable unless told
otherwise, and ``optimize_autovacuum`` is `pgq autovac`, which that guide advises. It has a concurrency limit for each
entrypoint, but no order by key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple

import asyncpg
import orjson
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from benchmarks.peers.held import Held
from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

NAME: Final = "bench"
BATCH: Final = 500


class Publisher(NamedTuple):
    """A connection, and the calls of the package on it."""

    connection: asyncpg.Connection
    queries: Queries


class PgQueuer(Peer):
    packages: ClassVar = ("pgqueuer", "asyncpg")
    settings = f"asyncpg, a held connection for each task, batches of {BATCH}, durable tables, pgq autovac"

    _working: asyncpg.Connection

    def __init__(self) -> None:
        self._publishers: Held[Publisher] = Held(self._publisher)

    async def _publisher(self) -> Publisher:
        connection = await asyncpg.connect(self.url)
        return Publisher(connection, Queries(AsyncpgDriver(connection)))

    async def prepare(self) -> None:
        async with self._publishers.one() as publisher:
            if not await publisher.queries.has_table("pgqueuer"):
                await publisher.queries.install()
                await publisher.queries.optimize_autovacuum()

    async def close(self) -> None:
        for publisher in self._publishers.all():
            await publisher.connection.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        async with self._publishers.one() as publisher:
            await publisher.queries.enqueue(NAME, orjson.dumps(payload), 0)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        size = len(payloads)
        async with self._publishers.one() as publisher:
            await publisher.queries.enqueue([NAME] * size, [orjson.dumps(payload) for payload in payloads], [0] * size)

    async def ready(self) -> None:
        self._working = await asyncpg.connect(self.url)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        manager = QueueManager(Queries(AsyncpgDriver(self._working)))

        @manager.entrypoint(NAME)
        async def handler(job: Job) -> None:
            handled(job.payload)

        running = asyncio.create_task(manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30)))
        try:
            yield
        finally:
            manager.shutdown.set()
            await running
            await self._working.close()

    async def waiting(self) -> int:
        async with self._publishers.one() as publisher:
            return int(await publisher.connection.fetchval("SELECT count(*) FROM pgqueuer"))


if __name__ == "__main__":
    speak(PgQueuer())
