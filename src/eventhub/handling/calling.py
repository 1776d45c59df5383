"""One way to call async and plain handlers alike."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from eventhub.handling.threads import DaemonThreads

__all__ = ["as_async"]


def as_async(function: Callable[[Any], Any], threads: DaemonThreads | None) -> Callable[[Any], Awaitable[Any]]:
    """The function to await: a plain one runs in a thread, or on the event loop itself when there are no threads."""
    if _is_async(function):
        return function

    async def call(argument: Any) -> Any:
        answer = function(argument) if threads is None else await threads.run(function, argument)
        return await answer if inspect.isawaitable(answer) else answer

    return call


def _is_async(function: object) -> bool:
    # An object with an async __call__ is async too.
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
