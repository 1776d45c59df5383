"""One way to call async and plain handlers alike, and what can be no handler at all."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from eventhub.errors import SettingsError
from eventhub.handling.threads import DaemonThreads, Returned

__all__ = ["as_async", "check_handler", "check_returned", "contained", "is_async", "stops_program"]


def as_async(function: Callable[[Any], Any], threads: DaemonThreads | None) -> Callable[[Any], Awaitable[Any]]:
    """The function to await: a plain one runs in a thread, or on the event loop itself when there are no threads."""
    if is_async(function):
        return function

    async def call(argument: Any) -> Any:
        answer = function(argument) if threads is None else await threads.run(function, argument)
        return await answer if inspect.isawaitable(answer) else check_returned(answer)

    return call


def is_async(handler: object) -> bool:
    """Whether a call of it gives a coroutine; an object with an async ``__call__`` is async too."""
    return any(map(inspect.iscoroutinefunction, _functions_of(handler)))


def check_handler(name: str, handler: object) -> None:
    """Refuse what cannot be called, or whose call would run nothing: a generator runs only for those who iterate it."""
    if not callable(handler):
        raise SettingsError(f"The handler of {name!r} is {handler!r}; give a function that takes the event.")
    for function in _functions_of(handler):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SettingsError(
                f"The handler of {name!r} is {handler!r}, a generator function: a call of it would run none of its "
                "code. Remove the yield, or give a function that does the work."
            )


def check_returned(value: Any) -> Any:
    """What a handler returned, unless it is a generator, of whose code nothing has run."""
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError(f"the handler returned {value!r}, and none of a generator's code runs before it is iterated")
    return value


async def contained(work: Awaitable[Any]) -> Returned:
    """What the work gives back and what it raises; a cancellation passes, and so does an interrupt by the user.

    A handler's SystemExit is its failure: a task that ends with it would end the event loop.
    """
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if stops_program(error):
            raise
        return None, error


def stops_program(error: BaseException) -> bool:
    """Whether it is an interrupt that may come from the user, and not from the handler that was running."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    by_runner = last is not None and last.tb_frame.f_code.co_name == "_on_sigint"  # asyncio's
    return by_runner or signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _functions_of(handler: Any) -> tuple[Any, Any]:
    """The function behind partials, and what a call of an object runs."""
    while isinstance(handler, partial):
        handler = handler.func
    return handler, type(handler).__call__
