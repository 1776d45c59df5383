"""Waiting until everything that was published has come to its end."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from eventhub.core.events import Status
from eventhub.store import Store

__all__ = ["DRAIN_SECONDS", "drained"]

DRAIN_SECONDS: Final = 60.0


async def drained(store: Store, *, seconds: float = DRAIN_SECONDS) -> float:
    """Wait until nothing is open, neither work nor messages; returns how long it took."""
    began = time.monotonic()
    while left := await _open(store):
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"{left} events are still open after {seconds:.0f} s.")
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def _open(store: Store) -> int:
    depths = [queue.depth for queue in await store.stats()]
    return sum(depth[status] for depth in depths for status in (Status.PENDING, Status.PROCESSING))
