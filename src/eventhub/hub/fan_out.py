"""The fan-out: markers of broadcast events become messages, each subscriber's once and in the order of the events.

Any number of processes may run one; the store lets one at a time hand out.
"""

from __future__ import annotations

import asyncio
from typing import Final

from eventhub.hub.directory import Directory
from eventhub.hub.looping import Loop
from eventhub.hub.numbers import Numbers
from eventhub.store import Store
from eventhub.store.messages import FANOUT, FannedOut

__all__ = ["FanOut"]

LIMIT: Final = 500
"""Events that one round hands out at most."""
LONGEST_REST: Final = 0.5
BUSY_REST: Final = 0.02
"""Seconds before a look whether the process that is handing out has left something."""
GATHER: Final = 0.003
"""Seconds that a round lets events come together after one that found few: each costs as much as many."""
FEW: Final = 50


class FanOut(Loop):
    """Hands out the events of a store until it is stopped."""

    name = "fan_out"

    def __init__(self, store: Store, numbers: Numbers) -> None:
        super().__init__(store)
        self._numbers = numbers
        self._directory: Directory | None = None
        self._mark = 0

    async def work(self) -> float | None:
        self._mark = self._store.wakeups.mark(FANOUT)  # before the look, so that no wake-up is lost
        done = await self.hand_out()
        if done.more or done.stale:
            return None
        if 0 < done.events < FEW:
            await asyncio.sleep(GATHER)
        return BUSY_REST if done.busy else LONGEST_REST

    async def rest(self, seconds: float) -> None:
        await self._store.wait(FANOUT, since=self._mark, timeout=seconds, until_due=False)

    async def hand_out(self) -> FannedOut:
        """One round, by the subscribers as they are now."""
        if self._directory is None:
            self._directory = Directory(*await self._store.subscribers())
        done = await self._store.fan_out(self._directory.plan(), limit=LIMIT)
        if done.stale:
            self._directory = None
        self._numbers.fanned_out(done.events, done.messages)
        return done
