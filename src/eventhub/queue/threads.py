"""Threads for plain handlers: reused, and daemons, so that one that hangs cannot keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")
_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Context, Callable[[Any], Any], Any]


class Threads:
    """Up to ``limit`` threads, started when they are needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._started = 0
        self._busy = 0
        self._forsaken = 0
        """Calls that nobody waits for any more but that still occupy a thread: others are started in their place."""

    async def run(self, function: Callable[[Any], T], argument: Any) -> T:
        """Call the function in a thread. Cancelling ends the wait, but nothing stops a thread."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._busy += 1
        if self._started < min(self._busy, self._limit + self._forsaken):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, args=(self._work,), name=name, daemon=True).start()
        self._work.put((loop, answer, copy_context(), function, argument))
        try:
            return await answer
        except asyncio.CancelledError:
            self._forsaken += answer.cancelled()
            raise

    def stop(self) -> None:
        """Let every thread end after the work it is doing; a later call starts new ones on a queue of their own."""
        for _ in range(self._started):
            self._work.put(None)
        self._work = SimpleQueue()
        self._started = 0

    def _serve(self, queue: SimpleQueue[_Work | None]) -> None:
        while (work := queue.get()) is not None:
            loop, answer, context, function, argument = work
            try:
                result, error = context.run(function, argument), None
            except BaseException as caught:  # noqa: BLE001 - it belongs to whoever waits for the answer
                result, error = None, caught
            try:
                loop.call_soon_threadsafe(self._deliver, answer, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _deliver(self, answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._busy -= 1
        if answer.done():
            self._forsaken -= 1
            return
        if error is None:
            answer.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            answer.set_exception(error)
        else:  # a future cannot carry these, and a thread's SystemExit is not the program's
            answer.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
