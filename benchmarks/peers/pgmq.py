"""pgmq: its own SQL functions, as its Python package ships them, called with asyncpg in batches.

Settings: https://pgmq.github.io/pgmq/api/sql/functions/ (read, archive, delete, send_batch; read_grouped for order by
the group in a message's header). A message that was read is archived, or with ``delete`` as an argument deleted.
There is no worker in pgmq, so this is the loop that one writes: read 500, handle, archive 500; when there is nothing,
look again every 10 ms on average. A second argument says how many such loops run side by side.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import asyncpg
from pgmq.install import get_embedded_install_sql

from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

QUEUE: Final = "bench"
BATCH: Final = 500
LEASE_SECONDS: Final = 60
POLL: Final = 0.01
SEND: Final = f"SELECT pgmq.send('{QUEUE}', $1::jsonb)"
SEND_MANY: Final = f"SELECT pgmq.send_batch('{QUEUE}', $1::jsonb[])"
SEND_GROUPED: Final = f"SELECT pgmq.send_batch('{QUEUE}', $1::jsonb[], $2::jsonb[])"
READ: Final = f"SELECT msg_id, message FROM pgmq.read('{QUEUE}', {LEASE_SECONDS}, {BATCH})"  # noqa: S608
READ_GROUPED: Final = f"SELECT msg_id, message FROM pgmq.read_grouped('{QUEUE}', {LEASE_SECONDS}, {BATCH})"  # noqa: S608
END: Final = {name: f"SELECT pgmq.{name}('{QUEUE}', $1::bigint[])" for name in ("archive", "delete")}


class Pgmq(Peer):
    packages: ClassVar = ("pgmq", "asyncpg")

    def __init__(self, end: str = "archive", loops: str = "1") -> None:
        self._end = END[end]
        self._loops = int(loops)
        self.settings = f"batches of {BATCH}, {loops} at a time, {end}, polled every {POLL * 1000:g} ms"

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(self.url, min_size=self._loops, max_size=16)
        if not await self._pool.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgmq'"):
            await self._pool.execute(get_embedded_install_sql())
            await self._pool.execute("SELECT pgmq.create($1)", QUEUE)

    async def close(self) -> None:
        await self._pool.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._pool.fetchval(SEND, json.dumps(payload))

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._pool.fetch(SEND_MANY, [json.dumps(payload) for payload in payloads])

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:
        await self._pool.execute("SELECT pgmq.create_fifo_index($1)", QUEUE)
        headers = [json.dumps({"x-pgmq-group": event["key"]}) for event in events]
        await self._pool.fetch(SEND_GROUPED, [json.dumps(event) for event in events], headers)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        async with self._looping(handled, READ):
            yield

    @asynccontextmanager
    async def ordered_worker(self, handled: Handled) -> AsyncIterator[None]:
        async with self._looping(handled, READ_GROUPED):
            yield

    @asynccontextmanager
    async def _looping(self, handled: Handled, read: str) -> AsyncIterator[None]:
        stop = asyncio.Event()

        async def loop() -> None:
            async with self._pool.acquire() as connection:
                while not stop.is_set():
                    rows = await connection.fetch(read)
                    for row in rows:
                        handled(json.loads(row[1]))
                    if rows:
                        await connection.fetch(self._end, [row[0] for row in rows])
                    else:
                        await asyncio.sleep(POLL)

        running = [asyncio.create_task(loop()) for _ in range(self._loops)]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*running)

    async def waiting(self) -> int:
        found: int = await self._pool.fetchval(f"SELECT count(*) FROM pgmq.q_{QUEUE}")  # noqa: S608
        return found


if __name__ == "__main__":
    speak(Pgmq(*sys.argv[1:]))
