"""Running one handler for one event: whatever it does becomes an ending that can be reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from eventhub.client.answers import ClaimedEvent
from eventhub.client.tracing import trace_of
from eventhub.core.outcomes import PermanentError, TransientError
from eventhub.handling.calling import as_async, check_handler, stops_program
from eventhub.handling.limits import TimeLimit
from eventhub.handling.texts import LONGEST, clean, error_text
from eventhub.handling.threads import DaemonThreads

__all__ = ["Ended", "HandlerFunction", "Performer"]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a handler ended: well, or with an error; a program's exit code is a ``status_code``."""

    error: str | None = None
    retry: bool = True
    status_code: int | None = None


HandlerFunction = Callable[[ClaimedEvent], Awaitable[Any] | Any]
"""What it returns is its outcome; anything that is none is a success."""

WELL: Final = Ended()


class Performer:
    """Calls the handler within the event's trace, with the event's id in every log record."""

    def __init__(self, handler: HandlerFunction, worker_id: str, limit: TimeLimit) -> None:
        check_handler("the worker", handler)
        self._call = as_async(handler, DaemonThreads())
        self._worker_id = worker_id
        self.limit = limit

    async def __call__(self, event: ClaimedEvent) -> Ended:
        """Only a cancellation from outside passes."""
        answer: Any
        limit, task = self.limit, asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine is run by one
        limit.begin(task)
        try:
            with (
                trace_of(event.metadata),
                structlog.contextvars.bound_contextvars(event_id=event.id, worker_id=self._worker_id),
            ):
                answer = await self._call(event)
        except asyncio.CancelledError as cancelled:
            answer = cancelled
        except BaseException as error:  # a handler may fail in any way; the worker survives it
            if stops_program(error):
                raise
            answer = Ended(error=_short(error_text(error)))
        if limit.end(task):
            answer = Ended(error=limit.words) if not task.cancelling() else asyncio.CancelledError()
        if isinstance(answer, asyncio.CancelledError):
            if task.cancelling():
                raise answer
            answer = Ended(error="CancelledError: the handler cancelled itself")
        return _ended(answer)


def _ended(answer: Any) -> Ended:
    if isinstance(answer, TransientError | PermanentError):
        return Ended(error=_short(clean(str(answer))), retry=isinstance(answer, TransientError))
    if isinstance(answer, Ended):
        error = None if answer.error is None else _short(clean(answer.error))
        return Ended(error=error, retry=answer.retry, status_code=answer.status_code)
    return WELL  # whatever it is, it is no outcome that says otherwise


def _short(text: str) -> str:
    """An error as long as the hub takes it, to the character."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
