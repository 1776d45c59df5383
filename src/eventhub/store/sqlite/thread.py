"""One thread owns one connection: jobs queue up for it, and those that wait together are committed together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from eventhub.errors import StoreClosed, StoreUnavailable
from eventhub.store.sqlite.connection import translated

if TYPE_CHECKING:
    from concurrent.futures import Future as ThreadFuture

__all__ = ["ConnectionThread"]

R = TypeVar("R")
Job = Callable[[apsw.Connection], Any]
MOST_JOBS = 64


class ConnectionThread:
    """Runs jobs on a connection of its own; with ``writes`` every batch of jobs is one transaction."""

    def __init__(self, path: str, opened: Callable[[], apsw.Connection], *, writes: bool) -> None:
        self._path = path
        self._opened = opened
        self._begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        self._jobs: queue.SimpleQueue[tuple[Job, asyncio.AbstractEventLoop, asyncio.Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._broken: str | None = None
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name=f"eventhub-{'writer' if writes else 'reader'}", daemon=True
        )
        self._ready: ThreadFuture[None]

    async def start(self) -> None:
        """Open the connection on its thread; raises what opening raised."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        self._start = (loop, ready)
        self._thread.start()
        try:
            await ready
        except asyncio.CancelledError:
            self._jobs.put(None)  # nobody will use it: it ends once it is open
            raise

    async def run(self, job: Callable[[apsw.Connection], R]) -> R:
        """Run a job; returns after the commit that contains it."""
        if self._closed:
            raise StoreClosed(f"The store {self._path} is closed.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._jobs.put((job, loop, future))
        return await future

    def check(self) -> None:
        """Raise when it has given up for good."""
        if self._broken:
            raise StoreUnavailable(self._broken)

    async def stop(self) -> None:
        """Finish the jobs that wait, then close the connection."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        loop, ready = self._start
        try:
            connection = self._opened()
        except BaseException as error:  # noqa: BLE001 - the opener waits for it
            loop.call_soon_threadsafe(_fail, ready, error)
            return
        loop.call_soon_threadsafe(_succeed, ready, None)
        stopping = False
        while not stopping:
            batch = [self._jobs.get()]
            while len(batch) < MOST_JOBS and not self._jobs.empty():
                batch.append(self._jobs.get())
            stopping = None in batch
            jobs = [job for job in batch if job is not None]
            if jobs:
                self._deliver(jobs, self._transact(connection, [job for job, _, _ in jobs]))
        connection.close()

    def _transact(self, connection: apsw.Connection, jobs: list[Job]) -> list[tuple[bool, Any]]:
        if self._broken:
            return [(False, StoreUnavailable(self._broken))] * len(jobs)
        try:
            with translated(self._path):
                connection.execute(self._begin)
                if len(jobs) == 1:
                    results: list[tuple[bool, Any]] = [(True, jobs[0](connection))]
                else:
                    results = [self._alone(connection, job) for job in jobs]
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - given to whoever asked
            self._roll_back(connection)
            if isinstance(error, StoreUnavailable):
                # After a failed sync nobody knows what is on the disk: stop here, acknowledge nothing more.
                self._broken = str(error)
            return [(False, error)] * len(jobs)
        return results

    def _alone(self, connection: apsw.Connection, job: Job) -> tuple[bool, Any]:
        """One job among several: its error undoes its own work only."""
        connection.execute("SAVEPOINT job")
        try:
            with translated(self._path):
                result = job(connection)
        except Exception as error:
            if isinstance(error, StoreUnavailable) or not connection.in_transaction:
                raise  # the database itself gave up, and with it the whole transaction
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return False, error
        connection.execute("RELEASE job")
        return True, result

    def _roll_back(self, connection: apsw.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._broken = f"{self._path}: a failed transaction could not be undone ({error}). Restart the process."

    def _deliver(
        self,
        jobs: list[tuple[Job, asyncio.AbstractEventLoop, asyncio.Future[Any]]],
        results: list[tuple[bool, Any]],
    ) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], bool, Any]]] = {}
        for (_, loop, future), (good, value) in zip(jobs, results, strict=True):
            by_loop.setdefault(loop, []).append((future, good, value))
        for loop, answers in by_loop.items():
            try:
                loop.call_soon_threadsafe(_answer, answers)
            except RuntimeError:  # that loop is closed: nobody waits any more
                continue


def _answer(answers: list[tuple[asyncio.Future[Any], bool, Any]]) -> None:
    for future, good, value in answers:
        if good:
            _succeed(future, value)
        else:
            _fail(future, value)


def _succeed(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
