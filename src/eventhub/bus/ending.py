"""How a bus stops: gently with ``shutdown``, at once with ``destroy``, in any order and any number of times.

    shutdown ─▶ drain: what is in hand, and retries that a publisher waits for ─ done ────────────┐
                  │ the time is up: cancel and release, no attempt charged                        ├─▶ close
    destroy ──────┴─▶ cancel and leave the claims to the next start, as after a crash ────────────┘

Cancellation is never an outcome: a handler that was stopped has neither failed nor succeeded. Nor has one that the end
of the bus made fail. What running handlers publish while the bus drains is stored, and handled if there is time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from eventhub.bus.calling import GRACE
from eventhub.bus.dispatcher import Dispatcher
from eventhub.bus.flights import Flight
from eventhub.bus.nesting import calls_around, current_call
from eventhub.bus.parts import Parts
from eventhub.bus.presence import Presence
from eventhub.core.lifecycle import Release
from eventhub.errors import EventBusShutdownError, StoreError
from eventhub.handling.logs import get_logger
from eventhub.store.values import Report
from eventhub.store.workers import retire

__all__ = ["EVENTS", "Ending"]

log = get_logger("eventhub.bus")

EVENTS: Final = "events"
LAST_WORDS: Final = 5.0
"""Seconds for what is on its way to the store already: outcomes being written, claims being made."""


class Ending:
    """The end of one bus, which happens once however often it is asked for."""

    def __init__(
        self, parts: Parts, dispatcher: Dispatcher, presence: Presence, *, timeout: float, owns_store: bool
    ) -> None:
        self._parts, self._dispatcher, self._presence = parts, dispatcher, presence
        self._timeout = None if timeout == float("inf") else timeout
        self._owns_store = owns_store
        self._task: asyncio.Task[None] | None = None
        self._is_stranded = False
        self._at_once = asyncio.Event()
        self._drained = False

    @property
    def begun(self) -> bool:
        return self._task is not None or self._is_stranded or self._at_once.is_set()

    def check(self, what: str) -> None:
        """Refuse new work once the end has begun, but for the events of handlers that still run while it drains."""
        draining = self.begun and not self._drained and not self._at_once.is_set()
        if draining and what == EVENTS and any(calls_around(current_call(), self._parts.worker)):
            return
        if self.begun:
            raise EventBusShutdownError(
                f"The bus {self._parts.queue!r} is shut down and takes no more {what}. Make a new EventBus."
            )

    async def shutdown(self, stopped: Callable[[], Awaitable[list[asyncio.Task[Any]]]]) -> None:
        """``stopped`` gives the bus's own tasks, once nobody starts them any more."""
        if self._parts.store.is_stranded:
            self._is_stranded = True  # its tasks ended with their loop, or are the parent's
            retire(self._parts.worker)
            if self._owns_store:
                await self._parts.store.close()
            return
        if self._task is None:
            self._task = asyncio.create_task(self._end(stopped))
        await asyncio.shield(self._task)

    async def destroy(self, stopped: Callable[[], Awaitable[list[asyncio.Task[Any]]]]) -> None:
        if not self._parts.store.is_stranded:
            self._at_once.set()
        await self.shutdown(stopped)

    async def _end(self, stopped: Callable[[], Awaitable[list[asyncio.Task[Any]]]]) -> None:
        tasks = await stopped()
        try:
            if tasks and not self._at_once.is_set():
                self._dispatcher.drain()
                await self._first_of(self._drain(), self._timeout)
            self._drained = True
            self._dispatcher.stop()
            if self._at_once.is_set():
                await self._drop(tasks)
            else:
                await self._release(tasks)
                if tasks and not self._at_once.is_set():
                    await self._presence.withdraw()
        finally:
            self._parts.waiting.close(_not_settled)
            retire(self._parts.worker)
            if self._owns_store:
                await self._parts.store.close()

    async def _drain(self) -> None:
        flights, waiting = self._parts.flights, self._parts.waiting
        while pending := flights.tasks | waiting.futures():
            await asyncio.wait(pending)

    async def _first_of(self, work: Any, timeout: float | None) -> None:
        """Do the work until it is done, the time is up, or the bus is destroyed."""
        racers = {asyncio.ensure_future(work), asyncio.ensure_future(self._at_once.wait())}
        await asyncio.wait(racers, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(racers)

    async def _drop(self, tasks: list[asyncio.Task[Any]]) -> None:
        await _cancelled({*tasks, *self._parts.flights.tasks})

    async def _release(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Let what is being written finish, stop the handlers that still run and give their claims back."""
        if tasks:
            await self._first_of(asyncio.wait({tasks[0]}), LAST_WORDS)  # the dispatcher ends by itself
        running: list[Flight] = [flight for flight in self._parts.flights if not flight.settling]
        for flight in running:
            flight.task.cancel()
        left = self._parts.flights.tasks
        if left:
            await self._first_of(asyncio.wait(left), LAST_WORDS)
        await self._drop(tasks)
        if running and not self._at_once.is_set():
            await self._give_back(running)

    async def _give_back(self, running: list[Flight]) -> None:
        ids = [flight.event.id for flight in running]
        try:
            reports = [Report(flight.held, Release()) for flight in running]
            await self._parts.store.settle(reports, now=self._parts.now())
        except StoreError as error:  # then their leases end, or the next start takes them back
            log.warning("claims_not_released", queue=self._parts.queue, event_ids=ids, error=str(error))
        else:
            log.warning("shutdown_released", queue=self._parts.queue, event_ids=ids)


async def _cancelled(tasks: set[Any]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_WORDS + GRACE)


def _not_settled(event_id: int) -> EventBusShutdownError:
    return EventBusShutdownError(
        f"The bus was stopped before event {event_id} was settled. The event is stored and will be processed "
        "at the next start; do not publish it again."
    )
