"""How far a long command is: drawn on standard error while that is a terminal, and gone again at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from eventhub.cli.output import console, plain

__all__ = ["Advance", "bar", "count_down", "on_terminal", "waiting"]

R = TypeVar("R")
Advance = Callable[[int], None]
"""Told how many more are done."""

LOOK_EVERY: Final = 0.5
LOOK_SHARE: Final = 10
"""Counting what is left takes at most one part in so many of the time."""


def on_terminal() -> bool:
    """Whether somebody sees what is drawn."""
    errors = console(stderr=True)
    return errors.is_terminal and not errors.is_dumb_terminal


@contextmanager
def bar(what: str, total: int | None, *, quiet: bool = False) -> Iterator[Advance]:
    """A bar that fills up; without a total it only counts."""
    if quiet or not on_terminal():
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    ending = (TimeElapsedColumn(),) if total is None else (TimeRemainingColumn(),)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), *ending)
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """For work that cannot say how far it is: what is done, and for how long."""
    if quiet or not on_terminal():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        progress.add_task(plain(f"{what} …").plain, total=None)
        yield


async def count_down(
    what: str, work: Coroutine[Any, Any, R], left: Callable[[], Awaitable[int]], *, quiet: bool = False
) -> R:
    """Do the work while a bar shows how many are done: those that were there, less those that are left now."""
    if quiet or not on_terminal():
        return await work
    total = await left()
    doing = asyncio.ensure_future(work)
    try:
        with bar(what, total) as advance:
            await _watch(doing, total, left, advance)
            return await doing
    finally:
        doing.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await doing


async def _watch(doing: asyncio.Future[Any], total: int, left: Callable[[], Awaitable[int]], advance: Advance) -> None:
    shown, rest = 0, LOOK_EVERY
    while True:
        await asyncio.wait({doing}, timeout=rest)
        if doing.done():
            advance(total - shown)
            return
        began = time.monotonic()
        done = max(shown, total - await left())
        rest = max(LOOK_EVERY, LOOK_SHARE * (time.monotonic() - began))
        advance(done - shown)
        shown = done
