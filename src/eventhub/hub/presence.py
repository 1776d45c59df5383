"""Signs of life: every process notes now and then which roles of the hub it has, so that others can tell who is there.

They are kept where workers are, each role as a queue whose name no queue can have.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from eventhub.hub.looping import Loop
from eventhub.store import Store
from eventhub.store.values import Sighting

__all__ = ["Presence", "is_present"]

EVERY: Final = 30.0
GONE: Final = timedelta(seconds=100)
"""Three signs missed, and a little."""


class Presence(Loop):
    """The signs of one process."""

    name = "presence"

    def __init__(self, store: Store, roles: Sequence[str]) -> None:
        super().__init__(store)
        who = f"{socket.gethostname()}:{os.getpid()}"
        self._signs = [Sighting(_queue(role), who, "at work") for role in roles]

    async def work(self) -> float | None:
        await self._store.see_workers(self._signs)
        return EVERY


async def is_present(store: Store, role: str) -> bool:
    """Whether any process with this role was there lately."""
    return await store.was_seen(_queue(role), within=GONE)


def _queue(role: str) -> str:
    return f"#{role}"
