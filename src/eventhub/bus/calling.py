"""One call of one handler under its time limit; a failure is a text, not an exception.

A handler runs as a task or a thread of its own, so that it can be left behind: its late end changes nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any, Final

from eventhub.bus.subscriptions import Subscription
from eventhub.core.events import QueuedEvent
from eventhub.handling.texts import error_text
from eventhub.handling.threads import DaemonThreads

__all__ = ["Caller"]

GRACE: Final = 0.1
"""Seconds a cancelled handler gets to clean up before it is left behind."""


class Caller:
    """Calls handlers, plain ones in at most ``threads`` threads at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = DaemonThreads()
        self._slots = asyncio.Semaphore(threads)
        self._late: set[asyncio.Future[Any]] = set()

    async def call(self, subscription: Subscription, event: QueuedEvent) -> str | None:
        """None when the handler succeeded, else the error's text. Cancelling this cancels the handler."""
        if not subscription.is_async:
            return await self._in_thread(subscription, event)
        try:
            work = subscription.handler(event)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure
            return error_text(error)
        return await self._in_task(work, subscription.timeout, subscription.timeout)

    async def _in_task(self, work: Awaitable[Any], seconds: float, timeout: float) -> str | None:
        task = asyncio.ensure_future(work)
        if not await self._finished(task, seconds):
            return _timeout_text(timeout)
        if task.cancelled():
            return "CancelledError: the handler was cancelled, but not by the bus"
        error = task.exception()
        return None if error is None else error_text(error)

    async def _in_thread(self, subscription: Subscription, event: QueuedEvent) -> str | None:
        loop, timeout = asyncio.get_running_loop(), subscription.timeout
        async with self._slots:
            started = loop.time()  # waiting for a thread is not the handler's time
            context = copy_context()
            future = self._threads.submit(lambda: context.run(subscription.handler, event))
            if not await self._finished(future, timeout):
                return _timeout_text(timeout)
        value, error = future.result()
        if error is not None:
            return error_text(error)
        if inspect.isawaitable(value):  # a plain function around an async one
            return await self._in_task(value, timeout - (loop.time() - started), timeout)
        return None

    async def _finished(self, future: asyncio.Future[Any], seconds: float) -> bool:
        """Whether it ended in time; if not, or when we are cancelled, it is cancelled and left behind."""
        try:
            done, _ = await asyncio.wait({future}, timeout=None if seconds == float("inf") else max(seconds, 0))
        except asyncio.CancelledError:
            await self._leave(future)
            raise
        if not done:
            await self._leave(future)
        return bool(done)

    async def _leave(self, future: asyncio.Future[Any]) -> None:
        self._late.add(future)  # the loop itself holds tasks only weakly
        future.add_done_callback(self._forget)
        future.cancel()
        await asyncio.wait({future}, timeout=GRACE)

    def _forget(self, future: asyncio.Future[Any]) -> None:
        self._late.discard(future)
        if not future.cancelled():
            future.exception()  # seen, so that asyncio does not report it


def _timeout_text(timeout: float) -> str:
    return f"Handler timeout after {round(timeout * 1000)}ms"
