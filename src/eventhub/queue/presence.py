"""A running manager lets itself be seen, so that it is in the list of workers with all others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from eventhub.errors import StoreError
from eventhub.queue.event_queue import EventQueue
from eventhub.store.values import Sighting

__all__ = ["RUNNING", "STOPPED", "Presence"]

EVERY_SECONDS: Final = 10.0
"""Well below the 30 seconds after which a worker counts as silent."""
LEAVE_SECONDS: Final = 1.0
"""A database that is away must not hold up the end."""
RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"


class Presence:
    """The signs of life of one run."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    async def run(self) -> None:
        """Be seen now and again and again, until it is cancelled."""
        while True:
            with suppress(StoreError):  # the next sign tries again
                await self._note(RUNNING)
            await asyncio.sleep(EVERY_SECONDS)

    async def leave(self) -> None:
        with suppress(StoreError, TimeoutError):
            await asyncio.wait_for(self._note(STOPPED), LEAVE_SECONDS)

    async def _note(self, action: str) -> None:
        queue = self._queue
        await queue.store.see_workers([Sighting(queue.name, queue.worker, action)], now=queue.now())
