"""What several tests of the queue need."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from eventhub.store import Store
from eventhub.store.values import NewEvent, Route

UNREADABLE = "1e999"
"""A number that JSON can say and no float can hold: it passes any database and fails where it is read."""


async def publish_texts(store: Store, *payloads: str) -> list[int]:
    """Events of type ``a`` whose payloads are these texts, whether they can be read or not; their ids."""
    events = [NewEvent(type="a", payload=payload, route=Route("default", type="a")) for payload in payloads]
    return [published.id for published in await store.publish(events)]


async def until(condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 10.0) -> None:
    """Wait for a condition, looking often; fail after so many seconds."""
    deadline = monotonic() + seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)
