"""persist-queue: SQLiteAckQueue, shared by threads, every item acknowledged.

Settings: https://github.com/peter-wangxu/persist-queue (SQLiteAckQueue, multithreading=True; WAL is its own choice and
synchronous stays FULL, SQLite's default). It has no call for many at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

from persistqueue import Empty, SQLiteAckQueue

from benchmarks.peers.blocking import publish_in_threads
from benchmarks.peers.peer import Handled, Peer, in_thread
from benchmarks.peers.speaking import speak

POLL: Final = 0.05
"""Seconds that a consumer waits for an item before it looks whether it should stop."""


class PersistQueue(Peer):
    packages: ClassVar = ("persist-queue",)
    settings = "SQLiteAckQueue, multithreading, WAL, synchronous FULL, one consumer"

    async def prepare(self) -> None:
        place = Path(self.url)
        self._queue = SQLiteAckQueue(str(place.parent), db_file_name=place.name, multithreading=True, timeout=60)

    async def close(self) -> None:
        self._queue.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        self._queue.put(payload)

    async def publish(self, count: int, at_once: int) -> float:
        return await asyncio.to_thread(publish_in_threads, lambda: self._queue.put(self.payload), count, at_once)

    def worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:
        def work(go_on: Callable[[], bool]) -> None:
            while go_on():
                try:
                    item = self._queue.get(block=True, timeout=POLL, raw=True)
                except Empty:
                    continue
                handled(item["data"])
                self._queue.ack(id=item["pqid"])

        return in_thread(work)

    async def waiting(self) -> int:
        return int(self._queue.size) + int(self._queue.unack_count())


if __name__ == "__main__":
    speak(PersistQueue())
