"""Outlasting a database that is away for a while: try again, wait longer each time, say so in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from eventhub.errors import SchemaMismatch, StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger

__all__ = ["LASTING", "Patience"]

log = get_logger("eventhub.queue")
T = TypeVar("T")

LASTING: Final = (StoreClosed, SchemaMismatch)
"""Errors of the store that no waiting will cure."""
LAST_TRIES: Final = 3


class Patience:
    """Repeats store calls that fail, with jitter so that many processes do not come back all at once."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._backoff = Backoff(most=5.0)
        self.ending = False

    async def insist(self, doing: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the work, however often it takes; only a few times once the run is ending."""
        failures = 0
        while True:
            try:
                return await work()
            except LASTING:
                raise
            except StoreError as error:
                failures += 1
                if self.ending and failures >= LAST_TRIES:
                    raise
                await self.wait(doing, error, failures)

    async def wait(self, doing: str, error: StoreError, failures: int) -> None:
        if failures == 1:
            self._backoff.reset()
        pause = self._backoff.pause()
        log.warning(
            "store unavailable",
            queue=self._queue,
            doing=doing,
            failures=failures,
            retry_ms=int(pause * 1000),
            error=f"{type(error).__name__}: {error}",
        )
        await asyncio.sleep(pause)
