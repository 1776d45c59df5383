"""The limit: the bare driver (asyncpg or apsw) with Event Hub's tables, rows and batches, as in `eventhub bench`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from benchmarks.peers.peer import REST, Drained, Handled, Latencies, Peer, Unsupported
from benchmarks.peers.speaking import speak
from eventhub.bench.raw import Raw, open_raw
from eventhub.bench.settings import CLAIM, Engine
from eventhub.bench.workloads import LANES, fill
from eventhub.queue import EventQueue
from eventhub.store import open_store


class RawDriver(Peer):
    packages: ClassVar = ("asyncpg", "apsw")
    settings = "no checks, no objects; 16 at once share commits as Event Hub's do"

    _raw: Raw

    async def prepare(self) -> None:
        self._engine: Engine = "postgres" if "://" in self.url else "sqlite"
        async with open_store(self.url):
            pass
        self._raw = open_raw(self._engine, self.url)
        await self._raw.open()

    async def close(self) -> None:
        await self._raw.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:  # noqa: ARG002 - its own of the same size
        await self._raw.publish(1, batch=1, connections=1)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._raw.publish(len(payloads), batch=len(payloads), connections=1)

    async def publish(self, count: int, at_once: int) -> float:
        lanes = min(LANES[self._engine], at_once)
        together = max(at_once // lanes, 1)
        whole = count + -count % together
        return await self._raw.publish(whole, batch=together, connections=lanes) * count / whole

    async def batches(self, count: int, size: int) -> float:
        return await self._raw.publish(count, batch=size, connections=1)

    async def fill(self, count: int) -> None:
        await fill(self.url, count)

    async def drain(self, count: int, seconds: float, *, settle: bool = False) -> Drained:
        done, took = await self._raw.drain(count, batch=CLAIM, seconds=seconds)
        return Drained(done, took, done, settled=took if settle else None)  # it ends with its last commit

    async def latencies(self, count: int) -> Latencies:
        found = []
        for _ in range(count):
            await asyncio.sleep(random.uniform(*REST))  # noqa: S311 - spread, not secrecy
            took = await self._raw.latency(notified=self._engine == "postgres")
            if took is None:
                took = await self._raw.latency(notified=False)
            found.append((took or 0.0) * 1000)
        return Latencies(found, [])

    def worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - says why
        raise Unsupported("a driver has no worker")

    async def waiting(self) -> int:
        async with EventQueue(self.url) as queue:
            depth = (await queue.stats()).depth
        return sum(count for status, count in depth.items() if status in ("PENDING", "PROCESSING"))


if __name__ == "__main__":
    speak(RawDriver())
