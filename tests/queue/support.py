"""What several tests of the queue need."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic


async def until(condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 10.0) -> None:
    """Wait for a condition, looking often; fail after so many seconds."""
    deadline = monotonic() + seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)
