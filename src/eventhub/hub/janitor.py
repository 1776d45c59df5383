"""Keeping house: due retries become ready and abandoned claims are taken back, also when nobody asks for work.

Workers that were not seen for long are forgotten.

Any number of janitors may run; each step is a guarded statement, so every delivery is looked after once.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic
from typing import Final

from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.logs import get_logger
from eventhub.store import Store

__all__ = ["Janitor"]

log = get_logger("eventhub.hub")

LONGEST_REST: Final = 1.0
SHORTEST_REST: Final = 0.05
AFTER_TROUBLE: Final = 5.0
FORGET_WORKERS: Final = timedelta(days=30)
FORGET_EVERY: Final = 3600.0


class Janitor:
    """Tends a store until it is stopped."""

    def __init__(self, store: Store, *, forget_workers: timedelta = FORGET_WORKERS) -> None:
        self._store = store
        self._forget_workers = forget_workers
        self._forget_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="eventhub-janitor")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.sleep(await self._tend())
            except StoreClosed:
                return
            except Exception as error:
                known = isinstance(error, StoreError)
                log.warning("keeping house failed", error=f"{type(error).__name__}: {error}", exc_info=not known)
                await asyncio.sleep(AFTER_TROUBLE)

    async def _tend(self) -> float:
        """One round; returns how long to rest."""
        if monotonic() >= self._forget_at:
            await self._store.forget_workers(unseen=self._forget_workers)
            self._forget_at = monotonic() + FORGET_EVERY
        tended = await self._store.tend()
        if tended.buried:
            log.warning("workers lost for good", events=list(tended.buried))
        if tended.total:
            return SHORTEST_REST
        due = await self._store.next_due()
        return LONGEST_REST if due is None else min(max(due, SHORTEST_REST), LONGEST_REST)
