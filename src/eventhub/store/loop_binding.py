"""The event loop and the process that a store belongs to: to others its tasks and connections are of no use."""

from __future__ import annotations

import asyncio
import os

__all__ = ["LoopBinding"]

_REMEDY = "Open one of its own there, or use eventhub.blocking, which any thread and process may share."


class LoopBinding:
    """Bound at first use, and then for good: another loop never meets a future that it cannot wait for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def bind(self) -> None:
        """Belong to the running loop; raises when that is another one than before."""
        here = asyncio.get_running_loop()
        if self.loop is None:
            self.loop, self._process = here, os.getpid()
        elif self.loop is not here:
            raise RuntimeError(f"The store {self._name} {self._why()}. {_REMEDY}")

    def release(self) -> None:
        """Nothing was opened: any loop may try."""
        self.loop = None

    @property
    def is_forked(self) -> bool:
        """Whether it belongs to the process that this one was forked from."""
        return self.loop is not None and self._process != os.getpid()

    @property
    def is_orphaned(self) -> bool:
        """Whether its loop was closed, so that nobody can use it any more."""
        return self.loop is not None and self.loop.is_closed()

    def _why(self) -> str:
        if self.is_forked:
            return f"was opened by process {self._process}, from which this one was forked"
        if self.is_orphaned:
            return "was opened in an event loop that is closed by now, such as that of an earlier asyncio.run"
        return "was opened in another event loop, which is that of another thread"
