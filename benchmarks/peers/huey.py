"""huey on SQLite: fsync on, its consumer with one worker thread and short waits.

Documentation: https://huey.readthedocs.io/. The settings follow what SqliteStorage (fsync, WAL) and Consumer
(workers, the delay when idle, its backoff) say of themselves. A task is gone as soon as it is taken: huey has no
acknowledgement, so a crash loses what was under way. There is one writer at a time in SQLite, so one worker is best.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from huey import SqliteHuey
from huey.consumer import Consumer

from benchmarks.peers.blocking import publish_in_threads
from benchmarks.peers.peer import Handled, Peer
from benchmarks.peers.speaking import speak


class HueyPeer(Peer):
    packages: ClassVar = ("huey",)
    settings = "fsync=True (synchronous FULL), WAL, one worker thread, results=False"

    _handled: Handled = staticmethod(lambda _: None)

    async def prepare(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        self._huey = SqliteHuey("bench", filename=self.url, fsync=True, results=False, timeout=60)

        @self._huey.task()
        def handle(event: dict[str, Any]) -> None:
            self._handled(event)

        self._task = handle

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await asyncio.to_thread(self._task, payload)

    async def publish(self, count: int, at_once: int) -> float:
        return await asyncio.to_thread(publish_in_threads, lambda: self._task(self.payload), count, at_once)

    async def fill(self, count: int) -> None:
        await asyncio.to_thread(publish_in_threads, lambda: self._task(self.payload), count, 1)

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        self._handled = handled
        consumer = Consumer(
            self._huey, workers=1, periodic=False, initial_delay=0.01, backoff=1.0, max_delay=0.01,
            check_worker_health=False,
        )  # fmt: skip
        consumer.start()
        try:
            yield
        finally:
            await asyncio.to_thread(consumer.stop, graceful=True)

    async def waiting(self) -> int:
        return int(self._huey.pending_count())


if __name__ == "__main__":
    speak(HueyPeer())
