"""Group commit: calls that arrive while a batch is being written wait together and become the next batch.

One mechanism for publishing and for settling, on both engines. A call's answer comes after the commit that contains
it. A call stays whole: its items are written together or not at all, and an error that belongs to one call of a
batch is given to that call alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from eventhub.errors import StoreError

__all__ = ["Answer", "Batcher"]

T = TypeVar("T")
R = TypeVar("R")

Answer = list[R] | Exception
"""The results of one call's items, in their order, or the error that only this call has."""


def _concerns_all(error: Exception) -> bool:
    """Whether the database itself has trouble; a plain StoreError is about what one call wanted to store."""
    return isinstance(error, StoreError) and type(error) is not StoreError


class Batcher(Generic[T, R]):
    """Gathers concurrent calls into batches of up to ``limit`` items, at most ``lanes`` of them on their way."""

    def __init__(
        self,
        write: Callable[[list[Sequence[T]]], Awaitable[list[Answer[R]]]],
        *,
        limit: int = 1000,
        lanes: int = 1,
    ) -> None:
        self._write = write
        self._limit = limit
        self._lanes = lanes
        self._waiting: deque[tuple[Sequence[T], asyncio.Future[list[R]]]] = deque()
        self._busy = 0
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, items: Sequence[T]) -> list[R]:
        """Write the items with whatever else is waiting; returns their results after the commit."""
        future: asyncio.Future[list[R]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, future))
        if self._busy < self._lanes:
            self._busy += 1
            task = asyncio.create_task(self._flush())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await future

    async def drain(self) -> None:
        """Wait until nothing is on its way."""
        while self._running:
            await asyncio.wait(self._running)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                calls = [self._waiting.popleft()]
                size = len(calls[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= self._limit:
                    calls.append(self._waiting.popleft())
                    size += len(calls[-1][0])
                await self._answer(calls)
        finally:
            # Counted here, not when the task is reaped: a call that comes in between must start a new round.
            self._busy -= 1

    async def _answer(self, calls: list[tuple[Sequence[T], asyncio.Future[list[R]]]]) -> None:
        answers: Sequence[Answer[R]]
        try:
            answers = await self._write([items for items, _ in calls])
        except asyncio.CancelledError:
            for _, future in calls:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the error belongs to the callers
            if len(calls) > 1 and not _concerns_all(error):
                for call in calls:  # one of them is to blame: let the others through
                    await self._answer([call])
                return
            answers = [error] * len(calls)
        for (_, future), answer in zip(calls, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
