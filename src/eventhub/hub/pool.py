"""Connections that wait for their next request, by the origin they lead to; the one used last is taken first."""

from __future__ import annotations

import asyncio
from typing import Final

from eventhub.hub.connections import Connection

__all__ = ["Origin", "Pool"]

Origin = tuple[str, str, int]
"""Scheme, host and port."""

LONGEST_IDLE: Final = 30.0
LONGEST_LIFE: Final = 300.0
"""Seconds after which a connection is made anew, so that a name that has moved is followed."""
SWEEP_EVERY: Final = 5.0


class Pool:
    """At most ``limit`` idle connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self._idle: dict[Origin, list[Connection]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def take(self, origin: Origin) -> Connection | None:
        """An open connection to there, if one waits."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            self._count -= 1
            if connection.reusable and self._loop.time() - connection.idle_since < LONGEST_IDLE:
                return connection
            connection.close()
        return None

    def give(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection for the next request, or close it."""
        now = self._loop.time()
        if (
            self._closed
            or not connection.reusable
            or now - connection.made_at > LONGEST_LIFE
            or self._count >= self._limit
        ):
            connection.close()
            return
        connection.idle_since = now
        self._idle.setdefault(origin, []).append(connection)
        self._count += 1
        if self._timer is None:
            self._timer = self._loop.call_later(SWEEP_EVERY, self._sweep)

    def forget(self, origin: Origin) -> None:
        """Close what waits there."""
        for connection in self._idle.pop(origin, ()):
            self._count -= 1
            connection.close()

    def close(self) -> None:
        """Close what waits, and from now on whatever is given."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._idle.values():
            for connection in waiting:
                connection.close()
        self._idle.clear()
        self._count = 0

    def _sweep(self) -> None:
        """Close what has waited for too long, and forget what the other side has closed."""
        oldest = self._loop.time() - LONGEST_IDLE
        for origin, waiting in list(self._idle.items()):
            kept = [each for each in waiting if each.reusable and each.idle_since > oldest]
            for each in waiting:
                if each not in kept:
                    each.close()
            self._count -= len(waiting) - len(kept)
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        self._timer = self._loop.call_later(SWEEP_EVERY, self._sweep) if self._idle else None
