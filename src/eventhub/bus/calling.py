"""One call of one handler under its time limit; a failure is a value, not an exception.

A handler runs as a task or a thread of its own, so that it can be left behind: its late end changes nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from contextlib import nullcontext
from contextvars import copy_context
from typing import Any, Final, Self

import msgspec

from eventhub.bus.nesting import HandlerCall, calls_around, running_here
from eventhub.bus.subscriptions import Subscription
from eventhub.core.events import QueuedEvent
from eventhub.errors import EventBusShutdownError
from eventhub.handling.calling import check_returned, contained, stops_program
from eventhub.handling.texts import error_text
from eventhub.handling.threads import DaemonThreads

__all__ = ["CallFailure", "Caller"]

GRACE: Final = 0.1
"""Seconds a cancelled handler gets to clean up before it is left behind."""


class CallFailure(msgspec.Struct, frozen=True):
    """How a call failed."""

    error: str
    shutdown: bool = False
    """Whether a bus that stops made it fail."""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        return cls(error_text(error), _is_shutdown(error))


class Caller:
    """Calls the handlers of the bus ``bus``, plain ones in at most ``threads`` threads at a time.

    A plain handler that waits for an event lends its thread's place to the handlers of that event.
    """

    def __init__(self, threads: int, *, bus: str) -> None:
        self._bus = bus
        self._threads = DaemonThreads()
        self._slots = asyncio.Semaphore(threads)
        self._late: set[asyncio.Future[Any]] = set()

    async def call(
        self, subscription: Subscription, event: QueuedEvent, outer: HandlerCall | None = None
    ) -> CallFailure | None:
        """None when the handler succeeded. Cancelling this cancels the handler.

        ``outer`` is the handler that waits for the event.
        """
        call = HandlerCall(self._bus, event.id, event.ordering_key, outer)
        running_here(call)  # for the handler's task or thread, which begin with a copy of this context
        try:
            if not subscription.is_async:
                return await self._in_thread(subscription, event, call)
            try:
                work = subscription.handler(event)
            except BaseException as error:
                if stops_program(error):
                    raise
                return CallFailure.of(error)
            return await self._in_task(work, subscription.timeout, subscription.timeout)
        finally:
            call.running = False

    async def _in_task(self, work: Awaitable[Any], seconds: float, timeout: float) -> CallFailure | None:
        task = asyncio.create_task(contained(work))
        if not await self._finished(task, seconds):
            return _timed_out(timeout)
        if task.cancelled():
            return CallFailure("CancelledError: the handler was cancelled, but not by the bus")
        return _judge(*task.result())

    async def _in_thread(self, subscription: Subscription, event: QueuedEvent, call: HandlerCall) -> CallFailure | None:
        loop, timeout = asyncio.get_running_loop(), subscription.timeout
        in_place = any(each.threaded for each in calls_around(call.outer, self._bus))
        async with nullcontext() if in_place else self._slots:
            started = loop.time()  # waiting for a thread is not the handler's time
            call.threaded = True
            context = copy_context()
            future = self._threads.submit(lambda: context.run(subscription.handler, event))
            if not await self._finished(future, timeout):
                return _timed_out(timeout)
        call.threaded = False
        value, error = future.result()
        if error is None and inspect.isawaitable(value):  # a plain function around an async one
            return await self._in_task(value, timeout - (loop.time() - started), timeout)
        return _judge(value, error)

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


def _judge(value: Any, error: BaseException | None) -> CallFailure | None:
    """Whatever a handler gives back is a success, but for a generator, which is no end of the work."""
    if error is None:
        try:
            check_returned(value)
        except TypeError as generator:
            error = generator
    return None if error is None else CallFailure.of(error)


def _timed_out(timeout: float) -> CallFailure:
    return CallFailure(f"Handler timeout after {round(timeout * 1000)}ms")


def _is_shutdown(error: BaseException | None) -> bool:
    """Whether it is, or came from, the refusal of a bus that stops."""
    while error is not None:
        if isinstance(error, EventBusShutdownError):
            return True
        if isinstance(error, BaseExceptionGroup) and any(map(_is_shutdown, error.exceptions)):
            return True
        error = error.__cause__ or error.__context__
    return False
