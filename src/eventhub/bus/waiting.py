"""Publishers that wait for their event to be settled, by event id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from eventhub.bus.nesting import HandlerCall
from eventhub.errors import EventHubError
from eventhub.store.buses import Names

__all__ = ["Waited", "Waiting", "unwanted"]


class Waited(msgspec.Struct, frozen=True, eq=False):
    """An event that is waited for: what it is, which handlers it needs, and who waits."""

    id: int
    type: str
    required: Names | None
    futures: set[asyncio.Future[None]]
    outer: HandlerCall | None = None
    """The handler that waits for it."""


class Waiting:
    """Who waits for which event. An event may have several publishers, under one idempotency key."""

    def __init__(self) -> None:
        self._by_event: dict[int, Waited] = {}
        self._closed: Callable[[int], Exception] | None = None

    def __len__(self) -> int:
        return len(self._by_event)

    def __contains__(self, event_id: int) -> bool:
        return event_id in self._by_event

    def futures(self) -> set[asyncio.Future[None]]:
        return {future for waited in self._by_event.values() for future in waited.futures}

    def events(self) -> list[Waited]:
        """The events that are waited for."""
        return list(self._by_event.values())

    def join(
        self, event_id: int, event_type: str, required: Names | None, outer: HandlerCall | None = None
    ) -> asyncio.Future[None]:
        """Begin to wait; the future is done when the event is settled, or fails when it will not be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed is not None:
            future.set_exception(self._closed(event_id))
            return future
        waited = self._by_event.setdefault(event_id, Waited(event_id, event_type, required, set(), outer))
        waited.futures.add(future)
        future.add_done_callback(lambda done: self._leave(event_id, done))
        return future

    def outer_of(self, event_id: int) -> HandlerCall | None:
        """The handler that waits for an event."""
        waited = self._by_event.get(event_id)
        return None if waited is None else waited.outer

    def settled(self, event_id: int) -> None:
        """The event is COMPLETED or FAILED."""
        for future in self._take(event_id):
            future.set_result(None)

    def fail(self, event_id: int, error: Callable[[int], Exception]) -> None:
        """The event will not be settled here."""
        for future in self._take(event_id):
            future.set_exception(error(event_id))

    def close(self, error: Callable[[int], Exception]) -> None:
        """Nobody will be told of anything any more, those who come later included."""
        self._closed = error
        for event_id in list(self._by_event):
            self.fail(event_id, error)

    def _take(self, event_id: int) -> list[asyncio.Future[None]]:
        waited = self._by_event.pop(event_id, None)
        return [] if waited is None else [future for future in waited.futures if not future.done()]

    def _leave(self, event_id: int, future: asyncio.Future[None]) -> None:
        """A publisher that was cancelled no longer counts as waiting."""
        with suppress(asyncio.CancelledError):
            future.exception()  # seen, so that asyncio does not report it when the publisher is gone
        waited = self._by_event.get(event_id)
        if waited is not None:
            waited.futures.discard(future)
            if not waited.futures:
                del self._by_event[event_id]


def unwanted(event_id: int) -> EventHubError:
    return EventHubError(
        f"Event {event_id} is not settled, and a handler that it needs is not subscribed here any more. "
        "It stays PENDING until a bus has all its handlers."
    )
