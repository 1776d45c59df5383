"""Who is waiting for work, and the tap on the shoulder when there may be some.

A waiter takes a mark *before* it looks for work; a wake-up that comes between the look and the wait is then not lost.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

__all__ = ["Wakeups"]


class Wakeups:
    """Wake-ups by queue name, within one process."""

    def __init__(self) -> None:
        self._generation: defaultdict[str, int] = defaultdict(int)
        self._everyone = 0
        self._waiters: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    @property
    def waiting(self) -> bool:
        """Whether anyone waits at all."""
        return any(self._waiters.values())

    def mark(self, queue: str) -> int:
        """Where the wake-ups of a queue stand now; give it to ``wait``."""
        return self._generation[queue] + self._everyone

    def wake(self, queue: str | None = None) -> None:
        """There may be work in the queue; in any queue, when none is named."""
        if queue is None:
            self._everyone += 1
        else:
            self._generation[queue] += 1
        for name in [queue] if queue is not None else list(self._waiters):
            for waiter in self._waiters.pop(name, ()):
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self, queue: str, *, since: int, timeout: float | None) -> bool:
        """Wait for a wake-up later than the mark ``since``; False when the time is up first."""
        if self.mark(queue) != since:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[queue].add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self._waiters[queue].discard(waiter)
