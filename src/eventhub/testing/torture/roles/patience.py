"""Whoever starts while the database is away waits for it, as one whom a supervisor starts again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from eventhub.errors import StoreBusy, StoreUnavailable
from eventhub.store import Store

__all__ = ["opened"]

PAUSE: Final = 0.1


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    while True:
        try:
            await store.open()
            break
        except (StoreUnavailable, StoreBusy):
            await asyncio.sleep(PAUSE)
    try:
        yield store
    finally:
        await store.close()
