"""PgQueuer: asyncpg driver, batches of 500, its own settings for autovacuum.

Documentation: https://janbjorge.github.io/pgqueuer/. The settings follow what the package says of itself: asyncpg is
one of its drivers, QueueManager.run has batch_size (10 unless told), and Durability is durable unless told otherwise;
`pgq autovac`, which its documentation advises, is what ``optimize_autovacuum`` does.
It has a concurrency limit for each entrypoint, but no order by key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar, Final

import asyncpg
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

NAME: Final = "bench"
BATCH: Final = 500


class PgQueuer(Peer):
    packages: ClassVar = ("pgqueuer", "asyncpg")
    settings = f"asyncpg, batches of {BATCH}, durable tables, pgq autovac"

    _pool: asyncpg.Pool
    _queries: Queries

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(self.url, min_size=1, max_size=16)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        if not await self._queries.has_table("pgqueuer"):
            await self._queries.install()
            await self._queries.optimize_autovacuum()

    async def close(self) -> None:
        await self._pool.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._queries.enqueue(NAME, json.dumps(payload).encode(), 0)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        size = len(payloads)
        await self._queries.enqueue([NAME] * size, [json.dumps(payload).encode() for payload in payloads], [0] * size)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        connection = await asyncpg.connect(self.url)
        manager = QueueManager(Queries(AsyncpgDriver(connection)))

        @manager.entrypoint(NAME)
        async def handler(job: Job) -> None:
            handled(job.payload)

        running = asyncio.create_task(manager.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30)))
        try:
            yield
        finally:
            manager.shutdown.set()
            await running
            await connection.close()

    async def waiting(self) -> int:
        found: int = await self._pool.fetchval("SELECT count(*) FROM pgqueuer")
        return found


if __name__ == "__main__":
    speak(PgQueuer())
