"""Being the only one who does a piece of work: a lock in the hub's database, kept by a task as long as it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from eventhub.errors import EventHubError, StoreBusy
from eventhub.store import Store
from eventhub.store.workers import is_dead, new_worker, retire

__all__ = ["Hold", "hold"]

LEASE: Final = timedelta(seconds=60)
EVERY: Final = 15.0


class Hold:
    """A lock that is held; ask before each step that only one may do."""

    def __init__(self, store: Store, name: str, fence: int) -> None:
        self._store, self._name, self._fence = store, name, fence
        self.lost = False

    def check(self) -> None:
        if self.lost:
            raise StoreBusy(
                f"The lock {self._name!r} was lost: this process was silent for more than "
                f"{LEASE.total_seconds():.0f} s, and another may have taken over. Nothing more was done; run it again."
            )

    async def confirm(self) -> None:
        """The same, asked of the database now."""
        self.lost = self.lost or not await self._store.keep_lock(self._name, self._fence, LEASE)
        self.check()


@asynccontextmanager
async def hold(store: Store, name: str) -> AsyncIterator[Hold]:
    """Take the lock or say that somebody else has it; let it go in the end."""
    owner = new_worker()
    try:
        fence = await _take(store, name, owner)
        held = Hold(store, name, fence)
        keeper = asyncio.create_task(_keep(store, name, fence, held))
        try:
            yield held
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
            with suppress(EventHubError):
                await store.drop_lock(name, fence)
    finally:
        retire(owner)


async def _take(store: Store, name: str, owner: str) -> int:
    fence = await store.take_lock(name, owner, LEASE)
    holder = None if fence is not None else await store.lock_holder(name)
    if holder is not None and is_dead(holder.owner):
        await store.drop_lock(name, holder.fence)
        fence = await store.take_lock(name, owner, LEASE)
    if fence is None:
        who = "" if holder is None else f" by {holder.owner.rpartition(':')[0]}"
        raise StoreBusy(
            f"Another process is at it: the lock {name!r} is held{who}. Wait until it has ended; if it was killed, "
            f"its lock ends {LEASE.total_seconds():.0f} s after its last sign of life."
        )
    return fence


async def _keep(store: Store, name: str, fence: int, held: Hold) -> None:
    loop = asyncio.get_running_loop()
    kept_until = loop.time() + LEASE.total_seconds()
    while not held.lost:
        await asyncio.sleep(EVERY)
        asked = loop.time()
        try:
            if await store.keep_lock(name, fence, LEASE):
                kept_until = asked + LEASE.total_seconds()
            else:
                held.lost = True
        except EventHubError:  # the database is away for a moment
            held.lost = loop.time() > kept_until
