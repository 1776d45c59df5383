"""A loop that does rounds of work until it is stopped, whatever one round meets."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger
from eventhub.store import Store
from eventhub.store.audit import HUB, acting_as

__all__ = ["Loop"]

log = get_logger("eventhub.hub")

LAST_ROUND: Final = 5.0
"""Seconds that the round under way may take when the loop is stopped."""


class Loop(ABC):
    """Runs rounds in a task of its own; a database that is away is left alone for a while, then tried again."""

    name: str

    def __init__(self, store: Store) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._stopping = self._resting = False

    @abstractmethod
    async def work(self) -> float | None:
        """Do what is to be done; returns how long to rest, None to go on at once."""

    async def rest(self, seconds: float) -> None:
        """Until there may be more to do."""
        await asyncio.sleep(seconds)

    def start(self) -> None:
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self._run(), name=f"eventhub-{self.name}")

    async def stop(self) -> None:
        """The round under way comes to its end: what it has taken is not left lying about."""
        self._stopping = True
        if self._task is not None:
            if not self._resting:
                await asyncio.wait([self._task], timeout=LAST_ROUND)
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        with acting_as(HUB):
            await self._rounds()

    async def _rounds(self) -> None:
        backoff = Backoff()
        while not self._stopping:
            try:
                rest = await self.work()
                backoff.reset()
                self._resting = True
                if rest is not None and not self._stopping:
                    await self.rest(rest)
            except StoreClosed:
                return
            except Exception as error:  # noqa: BLE001 - whatever one round met, the next one tries again
                pause = backoff.pause()
                write = log.warning if isinstance(error, StoreError) else log.exception
                problem = f"{type(error).__name__}: {error}"
                write(f"{self.name}_failed", retry_in_ms=round(pause * 1000), error=problem)
                self._resting = True
                await asyncio.sleep(pause)
            finally:
                self._resting = False
