"""A time limit for handlers that run inside tasks: when it is over, the call is cancelled.

A limit is the same for all calls of a handler, so they run out in the order in which they began, and one timer for the
oldest of them is enough: a call costs an entry, not a timer.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from eventhub.errors import SettingsError

__all__ = ["HANDLER_LIMIT", "HINT", "TELL_AFTER", "TimeLimit", "limit_of"]

HANDLER_LIMIT: Final = timedelta(minutes=15)
"""How long a handler may take, unless it is said otherwise."""
TELL_AFTER: Final = 1.0
"""Seconds after which whoever is told to stop says what he waits for."""
HINT: Final = "a second Ctrl-C or SIGTERM stops at once"


class TimeLimit:
    """The limit of one handler, and its calls under way."""

    __slots__ = ("_began", "_loop", "_over", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began: dict[asyncio.Task[Any], float] = {}
        self._over: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, task: asyncio.Task[Any]) -> None:
        self._began[task] = monotonic()
        loop = task.get_loop()
        if (self._timer is None or self._loop is not loop) and self.seconds != math.inf:
            self._loop, self._timer = loop, loop.call_later(self.seconds, self._check)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Whether the call took too long; its cancellation is taken back then."""
        del self._began[task]
        if task not in self._over:
            return False
        self._over.discard(task)
        task.uncancel()
        return True

    def lasts(self, task: asyncio.Task[Any]) -> float | None:
        """How many seconds the call of this task lasts already; None when it has none."""
        began = self._began.get(task)
        return None if began is None else monotonic() - began

    def is_over(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task runs a call that took too long, and has not ended although it was cancelled."""
        return task in self._over

    @property
    def words(self) -> str:
        return f"Handler timeout after {round(self.seconds * 1000)}ms"

    def _check(self) -> None:
        self._timer = None
        now = monotonic()
        for task, began in list(self._began.items()):
            left = began + self.seconds - now
            if left > 0:
                self._timer = task.get_loop().call_later(left, self._check)
                return
            if task not in self._over:
                self._over.add(task)
                task.cancel()


def limit_of(what: str, timeout: timedelta | float | None) -> TimeLimit:
    """The limit that was asked for; None is none."""
    if timeout is None:
        return TimeLimit(math.inf)
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise SettingsError(f"{what} has the timeout {timeout!r}; give seconds, more than 0, or None for no limit.")
    return TimeLimit(float(seconds))
