"""Who handles which event: registration, matching, and one way to call async and plain handlers alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from eventhub.core.events import QueuedEvent
from eventhub.core.matching import Pattern
from eventhub.core.outcomes import HandlerResult, PermanentError, Success, TransientError
from eventhub.errors import HandlerExistsError, SettingsError
from eventhub.handling.calling import as_async, check_handler, stops_program
from eventhub.handling.limits import TimeLimit
from eventhub.handling.texts import clean, error_text
from eventhub.handling.threads import DaemonThreads

__all__ = ["KINDS", "Handler", "HandlerFunction", "Handlers"]

HandlerFunction = Callable[[QueuedEvent], Awaitable[Any] | Any]
"""What it returns is its outcome; anything that is none is a success with that result."""

KINDS: Final = ("success", "transient", "permanent")
SUCCESS: Final = Success()
_REMEMBERED_TYPES: Final = 4096
_LONGEST_ID: Final = 200


class Handler:
    """One registered handler, and how often it ended in which way."""

    __slots__ = ("_call", "id", "limit", "pattern", "results")

    def __init__(
        self,
        handler_id: str,
        pattern: Pattern,
        function: HandlerFunction,
        *,
        threads: DaemonThreads | None,
        limit: TimeLimit,
    ) -> None:
        self.id = handler_id
        self.limit = limit
        self.pattern = pattern
        self._call = as_async(function, threads)
        self.results = dict.fromkeys(KINDS, 0)

    async def __call__(self, event: QueuedEvent) -> HandlerResult:
        """Run the handler; whatever it does becomes a result. Only a cancellation from outside passes."""
        answer: Any
        limit, task = self.limit, asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine is run by one
        limit.begin(task)
        try:
            answer = await self._call(event)
        except asyncio.CancelledError as cancelled:
            answer = cancelled
        except BaseException as error:  # a handler may fail in any way; the loop survives it
            if stops_program(error):
                raise
            answer = TransientError(self.id, error_text(error))
        if limit.end(task):
            answer = TransientError(self.id, limit.words) if not task.cancelling() else asyncio.CancelledError()
        if isinstance(answer, asyncio.CancelledError):
            if task.cancelling():
                raise answer
            answer = TransientError(self.id, "CancelledError: the handler cancelled itself")
        if answer is None or (type(answer) is Success and answer.value is None):
            answer = SUCCESS
        elif not isinstance(answer, Success | TransientError | PermanentError):
            answer = Success(answer)
        result: HandlerResult = answer
        self.results[result.kind] += 1
        return result


class Handlers:
    """The handlers of a manager, in the order of their registration."""

    def __init__(self, threads: DaemonThreads) -> None:
        self._threads = threads
        self._handlers: dict[str, Handler] = {}
        self._by_type: dict[str, tuple[Handler, ...]] = {}
        self.patterns: frozenset[str] | None = frozenset()
        """Of the types that there are handlers for; None means all types."""

    def add(
        self, handler_id: str, pattern: str, function: HandlerFunction, *, inline: bool, limit: TimeLimit
    ) -> Handler:
        usable = isinstance(handler_id, str) and 0 < len(handler_id) <= _LONGEST_ID
        if not usable or clean(handler_id) != handler_id:  # it is stored with every result
            raise SettingsError(f"The handler id {handler_id!r} is not usable: give 1 to {_LONGEST_ID} characters.")
        check_handler(handler_id, function)
        if handler_id in self._handlers:
            raise HandlerExistsError(f"Handler with id '{handler_id}' is already registered")
        threads = None if inline else self._threads
        added = self._handlers[handler_id] = Handler(
            handler_id, Pattern(pattern), function, threads=threads, limit=limit
        )
        self._changed()
        return added

    def remove(self, handler_id: str) -> bool:
        removed = self._handlers.pop(handler_id, None)
        self._changed()
        return removed is not None

    def _changed(self) -> None:
        self._by_type.clear()
        patterns = frozenset(handler.pattern.text for handler in self._handlers.values())
        self.patterns = None if "*" in patterns else patterns

    def is_overdue(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task runs a handler beyond its time limit, which has not ended although it was cancelled."""
        return any(each.limit.is_over(task) for each in self._handlers.values())

    def under_way(self, task: asyncio.Task[Any]) -> tuple[str, float] | None:
        """The handler that the task runs, and for how many seconds already."""
        for each in self._handlers.values():
            seconds = each.limit.lasts(task)
            if seconds is not None:
                return each.id, seconds
        return None

    def matching(self, event_type: str) -> Sequence[Handler]:
        """The handlers of a type; the answer is remembered, because types are few and events are many."""
        found = self._by_type.get(event_type)
        if found is None:
            if len(self._by_type) >= _REMEMBERED_TYPES:
                self._by_type.clear()
            found = tuple(h for h in self._handlers.values() if h.pattern.matches(event_type))
            self._by_type[event_type] = found
        return found
