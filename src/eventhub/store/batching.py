"""Group commit: calls that arrive while a batch is being written wait together and become the next batch.

One mechanism for publishing and for settling, on both engines. A call's answer comes after the commit that contains
it. A call stays whole: its items are written together or not at all, and an error that belongs to one call of a
batch is given to that call alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from eventhub.errors import StoreError, StoreUnavailable
from eventhub.store import limits
from eventhub.store.limits import begin_afresh, within_call

__all__ = ["Answer", "Batcher"]

T = TypeVar("T")
R = TypeVar("R")

Answer = Sequence[R] | Exception
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
        in_place: bool = False,
    ) -> None:
        """With ``in_place`` a call that comes alone is written by its caller, which spares a task and two turns of the
        loop; a caller that is cancelled then cancels its write.
        """
        self._write = write
        self._limit = limit
        self._lanes = lanes
        self._in_place = in_place
        self._lonely = True
        """Whether the last batch was a single call: then the next one will hardly find company either."""
        self._waiting: deque[tuple[Sequence[T], asyncio.Future[Sequence[R]], float]] = deque()
        """The calls, and since when they wait."""
        self._busy = 0
        self._ended = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_free(self) -> bool:
        """Whether a call that comes now is written at once, by its caller."""
        return self._in_place and self._lonely and self._busy < self._lanes and not self._waiting

    async def put(self, items: Sequence[T]) -> Sequence[R]:
        """Write the items with whatever else is waiting; returns their results after the commit."""
        if not self.is_free:
            future: asyncio.Future[Sequence[R]] = asyncio.get_running_loop().create_future()
            self._waiting.append((items, future, monotonic()))
            self._start()
            return await future
        self._busy += 1
        try:
            with within_call():
                (answer,) = await self._write([items])
        finally:
            self._end()
            while self._waiting and self._waiting[0][1].done():  # a loop that ends cancels all, and takes no new task
                self._waiting.popleft()
            if self._waiting:
                self._start()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> None:
        if self._busy < self._lanes:
            self._busy += 1
            task = asyncio.create_task(self._flush())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def drain(self) -> None:
        """Wait until nothing is on its way."""
        while self._busy:
            self._ended.clear()
            await self._ended.wait()

    async def _flush(self) -> None:
        try:
            begin_afresh()
            while self._waiting:
                if self._waiting[0][2] + limits.CALL_SECONDS <= monotonic():
                    self._refuse(self._waiting.popleft()[1])
                    continue
                calls = [self._waiting.popleft()]
                size = len(calls[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= self._limit:
                    calls.append(self._waiting.popleft())
                    size += len(calls[-1][0])
                self._lonely = len(calls) == 1
                with within_call(began=calls[0][2]):  # the first of them has waited longest
                    await self._answer(calls)
        finally:
            # Counted here, not when the task is reaped: a call that comes in between must start a new round.
            self._end()

    @staticmethod
    def _refuse(future: asyncio.Future[Sequence[R]]) -> None:
        if not future.done():
            future.set_exception(
                StoreUnavailable(
                    f"The database did not get to it within {limits.CALL_SECONDS:.0f} s; nothing of it was written. "
                    "Look at what keeps the database busy, then try again."
                )
            )

    def _end(self) -> None:
        self._busy -= 1
        self._ended.set()

    async def _answer(self, calls: list[tuple[Sequence[T], asyncio.Future[Sequence[R]], float]]) -> None:
        answers: Sequence[Answer[R]]
        try:
            answers = await self._write([items for items, _, _ in calls])
        except asyncio.CancelledError:
            for _, future, _ in calls:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the error belongs to the callers
            if len(calls) > 1 and not _concerns_all(error):
                for call in calls:  # one of them is to blame: let the others through
                    await self._answer([call])
                return
            answers = [error] * len(calls)
        for (_, future, _), answer in zip(calls, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
