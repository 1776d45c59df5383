"""A mark for each step of an event that is done, so that a handler that runs again does not repeat it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eventhub.core.events import Event
from eventhub.errors import InvalidEventError
from eventhub.queue.event_queue import EventQueue
from eventhub.store import Store

__all__ = ["IdempotencyGuard"]

_LONGEST_STEP = 200
_LARGEST_ID = 2**63 - 1


class IdempotencyGuard:
    """Guards the sub-steps of events; ``source`` is a queue or a store.

    ``await guard(event, "charge")`` marks first and answers True once: at most one run of the step, none if
    the process dies between the mark and the work. ``async with guard.once(event, "charge") as first:`` marks
    after the block succeeded: at least one run, again if the process dies inside.
    """

    def __init__(self, source: EventQueue | Store) -> None:
        self._clock = source.clock if isinstance(source, EventQueue) else None
        self.store: Store = source.store if isinstance(source, EventQueue) else source

    async def __call__(self, event: Event | int, step: str) -> bool:
        """True the first time, and the step is marked; False ever after."""
        now = None if self._clock is None else self._clock.now()
        return await self.store.guard(_id(event), _step(step), now=now)

    async def is_guarded(self, event: Event | int, step: str) -> bool:
        """Whether the step is marked already."""
        return await self.store.is_guarded(_id(event), _step(step))

    @asynccontextmanager
    async def once(self, event: Event | int, step: str) -> AsyncIterator[bool]:
        """True when the step has to be done; it is marked when the block ends without an error."""
        first = not await self.is_guarded(event, step)
        yield first
        if first:
            await self(event, step)


def _id(event: Event | int) -> int:
    if isinstance(event, Event):
        return event.id
    if isinstance(event, int) and not isinstance(event, bool) and 0 < event <= _LARGEST_ID:
        return event
    raise InvalidEventError(f"The event is {event!r:.300}; give an event, or the id of one.")


def _step(step: str) -> str:
    if not isinstance(step, str) or not 0 < len(step) <= _LONGEST_STEP or "\x00" in step:
        raise InvalidEventError(f"The step {step!r:.300} is not usable: give 1 to {_LONGEST_STEP} characters.")
    return step
