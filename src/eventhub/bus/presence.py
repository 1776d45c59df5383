"""A bus tells the store that it is alive and which handlers it has, so that others leave its events to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from eventhub.bus.parts import Parts
from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger

__all__ = ["Presence"]

log = get_logger("eventhub.bus")

ANNOUNCEMENTS_PER_LEASE: Final = 3


class Presence:
    """The sign of life of one bus. One that is not heard of for a lease is gone, as far as others can tell."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """The bus has other handlers than it said."""
        self._changed.set()

    async def announce(self) -> bool:
        """Say it now; False when the database cannot take it, and then it is said again soon."""
        self._changed.clear()
        try:
            await self._write(self._parts.tuning.lease)
        except StoreClosed:
            raise
        except StoreError as error:
            log.warning("announcement_failed", queue=self._parts.queue, error=str(error))
            self._changed.set()
            return False
        return True

    async def withdraw(self) -> None:
        """The bus stops: what it leaves behind is anybody's at once."""
        with suppress(StoreError):  # then its time ends by itself
            await self._write(timedelta(0))

    async def run(self) -> None:
        """Announce again and again, and soon after a change."""
        backoff = Backoff()
        every = self._parts.tuning.lease.total_seconds() / ANNOUNCEMENTS_PER_LEASE
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), every)
            try:
                announced = await self.announce()
            except StoreClosed:
                return
            if announced:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.pause())

    async def _write(self, lease: timedelta) -> None:
        parts = self._parts
        await parts.store.announce_bus(
            parts.worker, parts.queue, parts.subscriptions.names, lease=lease, now=parts.now()
        )
