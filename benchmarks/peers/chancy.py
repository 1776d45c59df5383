"""Chancy: the asyncio executor, much concurrency, and polling again as soon as jobs end.

Documentation: https://tkte.ch/chancy/. The settings follow what the package says of itself: AsyncExecutor for large
numbers of small jobs, Queue with concurrency and eager_polling, notifications on. It has unique
keys, but no order by key.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

from chancy import Chancy, Job, Queue, Worker

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

QUEUE: Final = "bench"
CONCURRENCY: Final = 500
MODULE: Final = "benchmarks.peers.chancy"


async def handle(*, event: dict[str, Any]) -> None:
    """Run by the worker, which finds it by its name."""
    Listening.handled(event)


class Listening:
    """Who wants to know, in this process."""

    handled: ClassVar[Handled] = staticmethod(lambda _: None)


class ChancyPeer(Peer):
    packages: ClassVar = ("chancy", "psycopg")
    settings = f"AsyncExecutor, concurrency {CONCURRENCY}, eager_polling, notifications"

    async def prepare(self) -> None:
        log = logging.getLogger("chancy")
        log.setLevel(logging.ERROR)
        self._chancy = Chancy(self.url, log=log, max_connection_pool_size=20)
        await self._chancy.pool.open()
        await self._chancy.migrate()
        queue = Queue(QUEUE, concurrency=CONCURRENCY, executor=Chancy.Executor.Async, eager_polling=True)
        await self._chancy.declare(queue, upsert=True)

    async def close(self) -> None:
        await self._chancy.pool.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._chancy.push(_job(payload))

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        jobs = [_job(payload) for payload in payloads]
        async for _ in self._chancy.push_many(jobs, batch_size=len(jobs)):
            pass

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        import benchmarks.peers.chancy as found_by_name  # the worker imports this module a second time

        found_by_name.Listening.handled = staticmethod(handled)
        async with Worker(self._chancy, register_signal_handlers=False, shutdown_timeout=30):
            yield

    async def waiting(self) -> int:
        query = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed', 'expired')"
        async with self._chancy.pool.connection() as connection:
            row = await (await connection.execute(query)).fetchone()
        return int(row[0])


def _job(payload: dict[str, Any]) -> Job:
    return Job(func=f"{MODULE}.handle", queue=QUEUE, kwargs={"event": payload})


if __name__ == "__main__":
    speak(ChancyPeer())
