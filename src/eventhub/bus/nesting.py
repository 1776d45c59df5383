"""Which handler is running here: an event that a handler publishes and waits for runs in the place of that handler.

    publish ─▶ handler ─▶ publish(wait=True) ─▶ handler ─▶ publish(wait=True) ─▶ …
    one slot ─────────────── the same ──────────────────── the same ─────────── at most 32 deep

A handler that waits does nothing else, so the event it waits for needs neither a slot nor a thread of its own: handlers
that all wait can never have taken the places of those they wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

from eventhub.errors import NestedPublishError

__all__ = ["MAX_DEPTH", "HandlerCall", "calls_around", "check_nested", "current_call", "running_here"]

MAX_DEPTH: Final = 32


class HandlerCall:
    """A call of a handler, while it runs and after."""

    __slots__ = ("bus", "depth", "event_id", "ordering_key", "outer", "running", "threaded")

    def __init__(self, bus: str, event_id: int, ordering_key: str | None, outer: HandlerCall | None) -> None:
        self.bus = bus
        """The worker name of the bus that makes the call."""
        self.event_id = event_id
        self.ordering_key = ordering_key
        self.outer = outer
        """The handler that waits for this event; None when none does."""
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.running = True
        self.threaded = False
        """Whether it has a thread of the bus's, or runs in the place of one that has."""


_current: ContextVar[HandlerCall | None] = ContextVar("eventhub_handler_call", default=None)


def running_here(call: HandlerCall) -> None:
    """From here on, in this context, this handler is running."""
    _current.set(call)


def current_call() -> HandlerCall | None:
    """The handler that is running here; None outside of handlers, and in what outlived its handler."""
    call = _current.get()
    return call if call is not None and call.running else None


def calls_around(call: HandlerCall | None, bus: str) -> Iterator[HandlerCall]:
    """A call and those that wait for it, one for the other, as far as they are the bus's."""
    while call is not None:
        if call.bus == bus:
            yield call
        call = call.outer


def check_nested(call: HandlerCall, bus: str, ordering_key: str | None) -> None:
    """Refuse a publisher that waits too deep, or for an event that could only begin after its own."""
    if call.depth >= MAX_DEPTH:
        raise NestedPublishError(
            f"A handler of event {call.event_id} publishes and waits, {call.depth + 1} events deep; at most "
            f"{MAX_DEPTH} may wait for one another. Publish with wait=False, or look for handlers that call each other "
            "for ever."
        )
    if ordering_key is not None and any(each.ordering_key == ordering_key for each in calls_around(call, bus)):
        raise NestedPublishError(
            f"A handler of an event with the ordering key {ordering_key!r} publishes under the same key and waits: the "
            "new event cannot begin before the first has ended. Publish with wait=False, or under another key."
        )
