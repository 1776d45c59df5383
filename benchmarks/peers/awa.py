"""awa: its queue storage, COPY for many at once, two claimers of 512.

Settings: https://pypi.org/project/awa-pg/ (enqueue_many_copy for high-volume producers), and the help of
AsyncClient.start ("claimers … for hot queue-storage queues; benchmark 2 or 4"). Its workers are Rust; the handler is
called in Python.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import awa

from benchmarks.peers.peer import Handled, Peer, Unsupported
from benchmarks.peers.speaking import speak

QUEUE: Final = "bench"
CONFIG: Final = {"name": QUEUE, "max_workers": 512, "claimers": 2, "claim_batch_size": 512}


@dataclass
class BenchEvent:
    event: dict[str, Any]


class Awa(Peer):
    packages: ClassVar = ("awa-pg",)
    settings = "queue storage, COPY, 512 workers, 2 claimers of 512"

    async def prepare(self) -> None:
        self._client = awa.AsyncClient(self.url, max_connections=20)
        await self._client.migrate()
        await self._client.install_queue_storage()

    async def close(self) -> None:
        await self._client.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._client.insert(BenchEvent(payload), queue=QUEUE)

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._client.enqueue_many_copy([BenchEvent(payload) for payload in payloads], queue=QUEUE)

    async def publish_ordered(self, events: Sequence[dict[str, Any]]) -> None:  # noqa: ARG002 - says why
        raise Unsupported(
            "an ordering_key chooses a shard; jobs of a key are claimed in order, but run at the same time"
        )

    async def ready(self) -> None:
        self._worker = awa.AsyncClient(self.url, max_connections=20)
        await self._worker.queue_stats()

    @asynccontextmanager
    async def worker(self, handled: Handled) -> AsyncIterator[None]:
        client = self._worker  # one can be started once

        @client.task(BenchEvent, queue=QUEUE)
        async def handle(job: Any) -> None:
            handled(job.args.event)

        await client.start([CONFIG])
        try:
            yield
        finally:
            await client.shutdown(timeout_ms=30_000)
            await client.close()

    async def waiting(self) -> int:
        stats = await self._client.queue_stats()
        return sum(one.total_queued + one.running for one in stats if one.queue == QUEUE)


if __name__ == "__main__":
    speak(Awa())
