"""pgmq by its SQL functions, as well as one can call them: asyncpg, orjson, held connections, one loop or two.

Settings: https://pgmq.github.io/pgmq/api/sql/functions/ (send, send_batch, read, archive, delete; read_grouped for
order by the group in a message's header; enable_notify_insert). A message that was read is archived, or with ``delete``
as an argument deleted. Each loop and each task that publishes keeps a connection, so nothing is reset in between.
There is no worker in pgmq; a loop reads 500, handles them, archives 500, and when there is nothing looks again in
10 ms. For latencies the queue notifies of every message (throttle 0), and the loops listen.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import asyncpg
import orjson
from pgmq.install import get_embedded_install_sql

from benchmarks.peers.held import Held
from benchmarks.peers.pausing import POLL, Pause
from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak

QUEUE: Final = "bench"
BATCH: Final = 500
LEASE_SECONDS: Final = 60
CHANNEL: Final = f"pgmq.q_{QUEUE}.INSERT"
SEND: Final = f"SELECT pgmq.send('{QUEUE}', $1::jsonb)"
SEND_MANY: Final = f"SELECT pgmq.send_batch('{QUEUE}', $1::jsonb[])"
SEND_GROUPED: Final = f"SELECT pgmq.send_batch('{QUEUE}', $1::jsonb[], $2::jsonb[])"
READ: Final = f"SELECT msg_id, message FROM pgmq.read('{QUEUE}', {LEASE_SECONDS}, {BATCH})"  # noqa: S608
READ_GROUPED: Final = f"SELECT msg_id, message FROM pgmq.read_grouped('{QUEUE}', {LEASE_SECONDS}, {BATCH})"  # noqa: S608
END: Final = {name: f"SELECT pgmq.{name}('{QUEUE}', $1::bigint[])" for name in ("archive", "delete")}


class PgmqSql(Peer):
    packages: ClassVar = ("pgmq", "asyncpg", "orjson")

    def __init__(self, end: str, loops: int) -> None:
        self._end = END[end]
        self._loops = loops
        self._connections: Held[asyncpg.Connection] = Held(lambda: asyncpg.connect(self.url))
        self.settings = (
            f"SQL functions by asyncpg, held connections, loops: {loops}, batches of {BATCH}, {end}; polled every "
            f"{POLL * 1000:g} ms, LISTEN/NOTIFY without throttle for latencies"
        )

    async def prepare(self) -> None:
        async with self._connections.one() as connection:
            if not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgmq'"):
                await connection.execute(get_embedded_install_sql())
                await connection.execute("SELECT pgmq.create($1)", QUEUE)
                if self.notify:
                    await connection.execute("SELECT pgmq.enable_notify_insert($1, 0)", QUEUE)

    async def ready(self) -> None:
        await self._connections.open(self._loops + 2)  # one looks how much is left, and one may listen

    async def close(self) -> None:
        for connection in self._connections.all():
            await connection.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        async with self._connections.one() as connection:
            await connection.fetchval(SEND, _text(payload))

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        async with self._connections.one() as connection:
            await connection.fetch(SEND_MANY, [_text(payload) for payload in payloads])

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:
        async with self._connections.one() as connection:
            await connection.execute("SELECT pgmq.create_fifo_index($1)", QUEUE)
            headers = [_text({"x-pgmq-group": event["key"]}) for event in events]
            await connection.fetch(SEND_GROUPED, [_text(event) for event in events], headers)

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
        pauses = [Pause(notified=self.notify) for _ in range(self._loops)]

        async def loop(pause: Pause) -> None:
            async with self._connections.one() as connection:
                while not stop.is_set():
                    pause.begin()
                    rows = await connection.fetch(read)
                    for row in rows:
                        handled(orjson.loads(row[1]))
                    if rows:
                        await connection.fetch(self._end, [row[0] for row in rows])
                    elif not stop.is_set():
                        await pause.wait()

        async with self._listening(pauses):
            running = [asyncio.create_task(loop(pause)) for pause in pauses]
            try:
                yield
            finally:
                stop.set()
                for pause in pauses:
                    pause.end()
                await asyncio.gather(*running)

    @asynccontextmanager
    async def _listening(self, pauses: Sequence[Pause]) -> AsyncIterator[None]:
        """A notification ends the pauses, if there are any."""
        if not self.notify:
            yield
            return
        async with self._connections.one() as connection:
            for pause in pauses:
                await connection.add_listener(CHANNEL, pause.end)
            yield
            for pause in pauses:
                await connection.remove_listener(CHANNEL, pause.end)

    async def waiting(self) -> int:
        async with self._connections.one() as connection:
            return int(await connection.fetchval(f"SELECT count(*) FROM pgmq.q_{QUEUE}"))  # noqa: S608


def _text(value: dict[str, Any]) -> str:
    text: str = orjson.dumps(value).decode()
    return text


if __name__ == "__main__":
    speak(PgmqSql(sys.argv[1], int(sys.argv[2])))
