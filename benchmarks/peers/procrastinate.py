"""Procrastinate: its psycopg connector with a pool, concurrent async jobs, done jobs deleted.

Documentation: https://procrastinate.readthedocs.io/. The settings follow what App.run_worker_async says of itself:
concurrency for async jobs (1 unless told), delete_jobs, listen_notify, and cancelling the task as a way to stop. Jobs
with one lock run one at a time, in the order they were deferred.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import procrastinate

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

CONCURRENCY: Final = 20


class Procrastinate(Peer):
    packages: ClassVar = ("procrastinate", "psycopg")
    settings = f"concurrency {CONCURRENCY}, pool of {CONCURRENCY}, delete_jobs=successful"

    _handled: Handled = staticmethod(lambda _: None)

    async def prepare(self) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=self.url, min_size=4, max_size=CONCURRENCY)
        self._app = procrastinate.App(connector=connector)

        @self._app.task(name="bench")
        async def handle(event: dict[str, Any]) -> None:
            self._handled(event)

        self._task = handle
        await self._app.open_async()
        if not await connector.execute_query_all_async("SELECT 1 FROM pg_class WHERE relname = 'procrastinate_jobs'"):
            await self._app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._task.defer_async(event=payload)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._task.batch_defer_async(*({"event": payload} for payload in payloads))

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:
        for event in events:  # a batch has one lock for all
            await self._task.configure(lock=event["key"]).defer_async(event=event)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        self._handled = handled
        running = asyncio.create_task(
            self._app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful", install_signal_handlers=False)
        )
        try:
            yield
        finally:
            running.cancel()  # as its documentation says: jobs under way are waited for
            await asyncio.gather(running, return_exceptions=True)

    async def waiting(self) -> int:
        query = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        (row,) = await self._app.connector.execute_query_all_async(query)
        return int(row["count"])


if __name__ == "__main__":
    speak(Procrastinate())
