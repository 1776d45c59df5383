"""Threads for plain handlers. They are daemons: a handler that hangs never keeps the process from ending.

``ThreadPoolExecutor`` will not do: the interpreter joins its threads at exit, hung ones included.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final

from eventhub.handling.texts import error_text

__all__ = ["DaemonThreads", "Returned"]

IDLE_SECONDS: Final = 10.0

Returned = tuple[Any, BaseException | None]
"""What a call gave back and what it raised; as a value, since a future cannot carry every exception."""

_Job = Callable[[], None]


class DaemonThreads:
    """Runs calls in threads that are started when none is idle and end when idle for long."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Job]] = []
        self._lock = threading.Lock()

    async def run(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """What the function gives back or raises. Cancelling ends the wait, but nothing stops a thread."""
        context = copy_context()
        value, error = await self.submit(lambda: context.run(function, argument))
        if error is None:
            return value
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        # A coroutine cannot pass these on, and a thread's SystemExit is not the program's.
        raise RuntimeError(error_text(error)) from error

    def submit(self, call: Callable[[], Any]) -> asyncio.Future[Returned]:
        """Start the call; cancelling the future lets go of it, whatever the thread still does."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Returned] = loop.create_future()

        def job() -> None:
            try:
                returned: Returned = (call(), None)
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                returned = (None, error)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_deliver, future, returned)

        with self._lock:
            jobs = self._idle.pop() if self._idle else None
        if jobs is None:
            jobs = SimpleQueue()
            threading.Thread(target=self._work, args=(jobs,), name="eventhub-handler", daemon=True).start()
        jobs.put(job)
        return future

    def _work(self, jobs: SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if jobs in self._idle:
                        self._idle.remove(jobs)
                        return
                continue  # taken from the idle ones just now: its job is on the way
            job()
            del job  # while idle, hold on to no event
            with self._lock:
                self._idle.append(jobs)


def _deliver(future: asyncio.Future[Returned], returned: Returned) -> None:
    if not future.done():
        future.set_result(returned)
    elif inspect.iscoroutine(returned[0]):
        returned[0].close()  # nobody will await it
