"""The manager: polls a queue, runs the handlers registered for each event, and settles what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Self, TypeVar

import msgspec

from eventhub.errors import SettingsError
from eventhub.handling.limits import HANDLER_LIMIT, limit_of
from eventhub.handling.threads import DaemonThreads
from eventhub.queue.event_queue import EventQueue, as_duration
from eventhub.queue.handlers import HandlerFunction, Handlers
from eventhub.queue.numbers import Numbers
from eventhub.queue.running import Run, RunSettings
from eventhub.queue.unmatched import OnUnmatched, Unmatched

__all__ = ["EventManager"]

F = TypeVar("F", bound=HandlerFunction)


class EventManager:
    """Runs handlers for the events of a queue, up to ``concurrency`` events at a time.

    Only events whose type has a handler are claimed; the others stay for those who have one.

    A handler gets the QueuedEvent and returns ``Success()`` or None, ``TransientError(source, message)`` to
    be run again later, or ``PermanentError(source, message)`` to end the event. It is run 20 times at most, after
    5 seconds, 10, 20 and so on up to an hour, unless the queue's ``max_attempts`` and ``retry_after`` say otherwise.
    An exception is a transient error. Each result is stored, and a later pass runs only the handlers that are
    not settled. Plain functions run in threads; ``inline=True`` runs one on the event loop, for those that
    never block.

    ``batch`` is the most events claimed at once, ``poll_interval`` the longest sleep, in seconds, when
    nothing wakes an idle manager. ``on_unmatched`` says what becomes of a type that nobody has handled for
    ``unmatched_after`` (5 minutes), which is so when its oldest event has stayed untouched for so long: its
    events are left alone and the log tells of it (``"report"``), or they are completed (``"complete"``).
    """

    def __init__(
        self,
        queue: EventQueue,
        *,
        concurrency: int = 10,
        batch: int = 500,
        poll_interval: float = 1.0,
        shutdown_timeout: float = 30.0,
        on_unmatched: OnUnmatched = "report",
        unmatched_after: timedelta | float = 300.0,
    ) -> None:
        for name, value in (("concurrency", concurrency), ("batch", batch)):
            if value < 1:
                raise SettingsError(f"{name} is {value}; give 1 or more.")
        if poll_interval <= 0 or shutdown_timeout < 0:
            raise SettingsError(
                f"poll_interval is {poll_interval} and shutdown_timeout {shutdown_timeout}; give seconds, "
                "more than 0 and at least 0."
            )
        if on_unmatched not in ("report", "complete"):
            raise SettingsError(f"on_unmatched is {on_unmatched!r}; give 'report' or 'complete'.")
        self.queue = queue
        self.numbers = Numbers()
        self._settings = RunSettings(
            concurrency=concurrency,
            batch=batch,
            poll_interval=poll_interval,
            shutdown_timeout=shutdown_timeout,
        )
        self._handlers = Handlers(DaemonThreads())
        self._unmatched = Unmatched(on_unmatched, as_duration("unmatched_after", unmatched_after, zero=True))
        self._run: Run | None = None
        self._background: asyncio.Task[None] | None = None

    # -------------------------------------------------------------- handlers

    def register(
        self,
        handler_id: str,
        event_type: str,
        handler: HandlerFunction,
        *,
        inline: bool = False,
        timeout: timedelta | float | None = HANDLER_LIMIT,
    ) -> None:
        """Run ``handler`` for events of this type, or of every type that a pattern such as ``a.*`` takes.

        After ``timeout`` seconds the attempt has failed: an async handler is cancelled, the thread of a plain one is
        left behind, and nothing can end one that is ``inline`` and does not await. None asks for no limit.
        """
        limit = limit_of(f"The handler '{handler_id}'", timeout)
        added = self._handlers.add(handler_id, event_type, handler, inline=inline, limit=limit)
        self.numbers.results[handler_id] = added.results

    def unregister(self, handler_id: str) -> bool:
        """Forget a handler; False when there is none with that id."""
        return self._handlers.remove(handler_id)

    def on(
        self,
        event_type: str,
        *,
        handler_id: str | None = None,
        inline: bool = False,
        timeout: timedelta | float | None = HANDLER_LIMIT,
    ) -> Callable[[F], F]:
        """Register the decorated function, under its own name unless another id is given."""
        if callable(event_type):
            raise SettingsError("The decorator was used without an event type; write @manager.on('order.paid').")

        def decorate(handler: F) -> F:
            name = handler_id or getattr(handler, "__qualname__", None) or repr(handler)
            self.register(str(name), event_type, handler, inline=inline, timeout=timeout)
            return handler

        return decorate

    # ------------------------------------------------------------------ life

    async def run(self, *, until_empty: bool = False) -> None:
        """Handle events until ``stop()`` or cancellation; then let handlers end and give the rest back.

        With ``until_empty`` it returns when nothing is ready and nothing is in flight in this process; what
        waits for a retry stays.
        """
        if self._run is not None:
            raise RuntimeError("This manager runs already; make another one to run twice.")
        settings = self._settings
        if until_empty:
            settings = msgspec.structs.replace(settings, until_empty=True)
        self._run = Run(
            self.queue,
            self._handlers,
            unmatched=self._unmatched,
            numbers=self.numbers,
            settings=settings,
        )
        try:
            await self._run.go()
        finally:
            self._run = None

    async def run_until_empty(self) -> None:
        """Handle everything that is ready, then return."""
        await self.run(until_empty=True)

    @property
    def running(self) -> bool:
        return self._run is not None

    def stop(self) -> None:
        """Ask a running manager to end; harmless when it does not run."""
        if self._run is not None:
            self._run.stop()

    async def __aenter__(self) -> Self:
        """Run in the background for the length of the block."""
        self._background = asyncio.create_task(self.run(), name="eventhub-manager")
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        background, self._background = self._background, None
        if background is not None:
            await background
