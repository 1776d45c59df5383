"""pgmq by its own client in Python: AsyncPGMQueue on asyncpg, one consumer that reads and archives 500 at a time.

Settings: https://pgmq.github.io/pgmq-py/ (AsyncPGMQueue with its own pool and orjson; send, send_batch, read_batch,
archive_batch; read_grouped and create_fifo_index for order by the group in a message's header; enable_notify and
AsyncNotificationListener). Every call of the client is a transaction of its own, BEGIN and COMMIT, on a connection of
its pool. There is no worker in pgmq, so this is the loop that one writes: read 500, handle, archive 500; when there is
nothing, look again in 10 ms. For latencies the queue notifies of every message (throttle 0), and the loop listens.
``pgmq_sql`` is the other way: the SQL functions without the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

from pgmq import AsyncPGMQueue, get_embedded_install_sql
from pgmq.notify_listener import AsyncNotificationListener

from benchmarks.peers.pausing import POLL, Pause
from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

QUEUE: Final = "bench"
BATCH: Final = 500
LEASE_SECONDS: Final = 60

Read = Callable[[], Awaitable[list[Any]]]


class Pgmq(Peer):
    packages: ClassVar = ("pgmq", "asyncpg", "orjson")
    settings = (
        f"its own client, a pool of 16, one consumer, batches of {BATCH}, archive; polled every {POLL * 1000:g} ms, "
        "LISTEN/NOTIFY without throttle for latencies"
    )

    async def prepare(self) -> None:
        self._queue = AsyncPGMQueue(conn_string=self.url, init_extension=False, pool_size=16, vt=LEASE_SECONDS)
        self._queue.logger.setLevel(logging.ERROR)  # it warns of every notification, because none has a payload
        await self._queue.init()
        if not await self._queue.pool.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgmq'"):
            await self._queue.pool.execute(get_embedded_install_sql())
            await self._queue.create_queue(QUEUE)
            if self.notify:
                await self._queue.enable_notify(QUEUE, throttle_interval_ms=0)

    async def close(self) -> None:
        await self._queue.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._queue.send(QUEUE, payload)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._queue.send_batch(QUEUE, list(payloads))

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:
        await self._queue.create_fifo_index(QUEUE)
        headers = [{"x-pgmq-group": event["key"]} for event in events]
        await self._queue.send_batch(QUEUE, list(events), headers=headers)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        async with self._consuming(handled, lambda: self._queue.read_batch(QUEUE, batch_size=BATCH)):
            yield

    @asynccontextmanager
    async def ordered_worker(self, handled: Handled) -> AsyncIterator[None]:
        async with self._consuming(handled, lambda: self._queue.read_grouped(QUEUE, qty=BATCH)):
            yield

    @asynccontextmanager
    async def _consuming(self, handled: Handled, read: Read) -> AsyncIterator[None]:
        stop, pause = asyncio.Event(), Pause(notified=self.notify)

        async def consume() -> None:
            while not stop.is_set():
                pause.begin()
                messages = await read()
                for message in messages:
                    handled(message.message)
                if messages:
                    await self._queue.archive_batch(QUEUE, [message.msg_id for message in messages])
                elif not stop.is_set():
                    await pause.wait()

        async def hear(_: dict[str, Any]) -> None:
            pause.end()

        listener = AsyncNotificationListener(self._queue)
        running = [asyncio.create_task(consume())]
        if self.notify:
            running.append(asyncio.create_task(listener.listen(QUEUE, hear)))
        try:
            yield
        finally:
            stop.set()
            pause.end()
            listener.stop()
            await asyncio.gather(*running)

    async def waiting(self) -> int:
        return int(await self._queue.pool.fetchval(f"SELECT count(*) FROM pgmq.q_{QUEUE}"))  # noqa: S608


if __name__ == "__main__":
    speak(Pgmq())
