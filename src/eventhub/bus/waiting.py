"""Publishers that wait for their event to be settled, by event id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from eventhub.errors import EventHubError

__all__ = ["Waiting", "unwanted"]


class Waiting:
    """Who waits for which event. An event may have several publishers, under one idempotency key."""

    def __init__(self) -> None:
        self._by_event: dict[int, tuple[str, set[asyncio.Future[None]]]] = {}
        self._closed: Callable[[int], Exception] | None = None

    def __len__(self) -> int:
        return len(self._by_event)

    def __contains__(self, event_id: int) -> bool:
        return event_id in self._by_event

    def futures(self) -> set[asyncio.Future[None]]:
        return {future for _, futures in self._by_event.values() for future in futures}

    def items(self) -> list[tuple[int, str]]:
        """The events waited for: (id, type)."""
        return [(event_id, event_type) for event_id, (event_type, _) in self._by_event.items()]

    def join(self, event_id: int, event_type: str) -> asyncio.Future[None]:
        """Begin to wait; the future is done when the event is settled, or fails when it will not be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed is not None:
            future.set_exception(self._closed(event_id))
            return future
        self._by_event.setdefault(event_id, (event_type, set()))[1].add(future)
        future.add_done_callback(lambda done: self._leave(event_id, done))
        return future

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
        _, futures = self._by_event.pop(event_id, ("", set()))
        return [future for future in futures if not future.done()]

    def _leave(self, event_id: int, future: asyncio.Future[None]) -> None:
        """A publisher that was cancelled no longer counts as waiting."""
        with suppress(asyncio.CancelledError):
            future.exception()  # seen, so that asyncio does not report it when the publisher is gone
        _, futures = self._by_event.get(event_id, ("", set()))
        futures.discard(future)
        if not futures:
            self._by_event.pop(event_id, None)


def unwanted(event_id: int) -> EventHubError:
    return EventHubError(
        f"Event {event_id} is not settled and nobody here wants it any more: its last subscription went. "
        "It stays PENDING until a subscription matches it."
    )
