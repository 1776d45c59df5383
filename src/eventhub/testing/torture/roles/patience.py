"""Whoever starts while the database is away waits for it, as one whom a supervisor starts again and again; and whoever
has done all that he had to hears no more.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from eventhub.errors import StoreBusy, StoreUnavailable
from eventhub.store import Store

__all__ = ["deafen", "opened"]

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


def deafen() -> None:
    """A signal that came while asyncio closes its loop would be complained about on standard error."""
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
