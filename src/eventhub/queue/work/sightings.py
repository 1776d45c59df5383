"""Who was seen doing what: collected in memory, written at most once a second in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

from eventhub.errors import StoreError
from eventhub.store import Store
from eventhub.store.values import Sighting

__all__ = ["HEARTBEAT", "POLLED", "Sightings"]

WRITE_SECONDS: Final = 1.0
POLLED: Final = "POLLED"
"""Asked for work and got none yet; what a worker gets or reports is told in the words of the log."""
HEARTBEAT: Final = "HEARTBEAT"


class Sightings:
    """The latest action of each worker of a queue, until it is written down."""

    def __init__(self, store: Store, queue: str, now: Callable[[], datetime | None]) -> None:
        self._store = store
        self._queue = queue
        self._now = now
        self._pending: dict[str, tuple[str, datetime | None]] = {}
        self._written_at = -WRITE_SECONDS
        self._writing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

    def note(self, worker: str, action: str) -> None:
        self._pending[worker] = action, self._now()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def write(self) -> None:
        """Write down what is collected; what cannot be written is kept for the next time."""
        async with self._one_at_a_time:
            pending, self._pending = self._pending, {}
            if not pending:
                return
            self._written_at = asyncio.get_running_loop().time()
            try:
                for now in {now: None for _, now in pending.values()}:  # only an injected clock has more than one
                    seen = [Sighting(self._queue, name, action) for name, (action, at) in pending.items() if at == now]
                    await self._store.see_workers(seen, now=now)
            except BaseException:
                self._pending = pending | self._pending
                raise

    async def close(self) -> None:
        """Write the last of them."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        with suppress(StoreError):  # the database is away, and this is not worth an error
            await self.write()

    async def _write_later(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            await asyncio.sleep(max(0.0, self._written_at + WRITE_SECONDS - loop.time()))
            try:
                await self.write()
            except StoreError:
                return  # the next sighting tries again
