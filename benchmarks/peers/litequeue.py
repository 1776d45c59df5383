"""litequeue: one queue object for each thread, messages popped and marked done one at a time.

Settings: https://github.com/litements/litequeue (put, pop, done; it sets WAL and synchronous=NORMAL by itself).
NORMAL does not wait for the disk at each commit, so it is set to FULL here: all systems promise the same. With
``normal`` as an argument it stays as it sets itself up. Many at once are put within a transaction, as it documents.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final

from litequeue import LiteQueue

from benchmarks.peers.blocking import publish_in_threads
from benchmarks.peers.peer import Handled, Peer, in_thread
from benchmarks.peers.speaking import speak

POLL: Final = 0.001


class LiteQueuePeer(Peer):
    packages: ClassVar = ("litequeue",)

    def __init__(self, synchronous: str) -> None:
        self._synchronous = synchronous
        self.settings = f"synchronous {synchronous.upper()}, WAL, one consumer, polled every {POLL * 1000:g} ms"
        self._of_thread = threading.local()

    def _queue(self) -> LiteQueue:
        """A connection belongs to a thread."""
        if not hasattr(self._of_thread, "queue"):
            self._of_thread.queue = LiteQueue(self.url, timeout=60)
            self._of_thread.queue.conn.execute(f"PRAGMA synchronous = {self._synchronous}")
        found: LiteQueue = self._of_thread.queue
        return found

    async def prepare(self) -> None:
        self._queue()

    def _put(self) -> None:
        self._queue().put(json.dumps(self.payload))

    async def publish_one(self, payload: dict[str, Any]) -> None:
        self._queue().put(json.dumps(payload))

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        queue = self._queue()
        with queue.transaction(mode="IMMEDIATE"):
            for payload in payloads:
                queue.put(json.dumps(payload))

    async def publish(self, count: int, at_once: int) -> float:
        return await asyncio.to_thread(publish_in_threads, self._put, count, at_once)

    def worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:
        def work(go_on: Callable[[], bool]) -> None:
            queue = self._queue()
            while go_on():
                message = queue.pop()
                if message is None:
                    time.sleep(POLL)
                    continue
                handled(message.data)
                queue.done(message.message_id)

        return in_thread(work)

    async def waiting(self) -> int:
        return int(self._queue().qsize())


if __name__ == "__main__":
    speak(LiteQueuePeer(sys.argv[1] if len(sys.argv) > 1 else "full"))
