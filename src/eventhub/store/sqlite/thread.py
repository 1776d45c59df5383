"""One thread owns one connection: jobs queue up for it, and those that wait together are committed together.

To hand a job to another thread and to get its answer back takes a good part of the time that a commit takes on a quick
disk, or more. So a brief job that comes alone is done in place, on the thread of the loop, as long as commits have been
quick of late. It never waits there for another process: whoever finds the file locked goes to the thread and waits.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import apsw

from eventhub.errors import StoreBusy, StoreClosed, StoreUnavailable
from eventhub.store.sqlite.connection import hurried, translated
from eventhub.store.sqlite.files import DatabaseFiles

if TYPE_CHECKING:
    from concurrent.futures import Future as ThreadFuture

__all__ = ["ConnectionThread"]

R = TypeVar("R")
Job = Callable[[apsw.Connection], Any]
MOST_JOBS = 64
QUICK_SECONDS = 0.001
"""The longest that brief jobs may have taken of late, for the loop to stand still so long."""
REMEMBERED = 8
"""How many brief jobs it is about that are meant by "of late"."""
MOST_IN_PLACE = 100
"""In a row; the next one goes to the thread, which also sees to the length of the write-ahead log."""


class _Asked(NamedTuple):
    job: Job
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    brief: bool


class ConnectionThread:
    """Runs jobs on a connection of its own; with ``writes`` every batch of jobs is one transaction.

    Nothing is acknowledged when its files are no more where they were. ``between`` is done with the connection after
    each batch of jobs, when their answers are on the way.
    """

    def __init__(
        self,
        path: str,
        opened: Callable[[], apsw.Connection],
        *,
        writes: bool,
        between: Callable[[apsw.Connection], None] | None = None,
    ) -> None:
        self._path = path
        self._opened = opened
        self._between = between
        self._begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        self._jobs: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        """Whose turn it is to use the connection: the thread's, or somebody's in place."""
        self._connection: apsw.Connection
        self._files: DatabaseFiles | None
        self._brief_seconds = float("inf")
        self._in_place = 0
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

    async def run(self, job: Callable[[apsw.Connection], R], *, brief: bool = False) -> R:
        """Run a job; returns after the commit that contains it. A ``brief`` one may be done in place."""
        if self._closed:
            raise StoreClosed(f"The store {self._path} is closed.")
        if brief:
            done = self._done_in_place(job)
            if done is not None:
                await asyncio.sleep(0)  # who does one after the other must let others live
                good, value = done
                if good:
                    return cast("R", value)
                raise value
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._jobs.put(_Asked(job, loop, future, brief))
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
            with translated(self._path):
                self._files = DatabaseFiles.of(connection, self._path)
        except BaseException as error:  # noqa: BLE001 - the opener waits for it
            loop.call_soon_threadsafe(_fail, ready, error)
            return
        self._connection = connection
        loop.call_soon_threadsafe(_succeed, ready, None)
        stopping = False
        while not stopping:
            batch = [self._jobs.get()]
            while len(batch) < MOST_JOBS and not self._jobs.empty():
                batch.append(self._jobs.get())
            stopping = None in batch
            asked = [one for one in batch if one is not None]
            if asked:
                began = perf_counter()
                with self._turn:
                    results = self._transact(connection, [one.job for one in asked])
                if len(asked) == 1 and asked[0].brief:
                    self._took(perf_counter() - began)
                self._in_place = 0
                self._deliver(asked, results)
                if self._between is not None:
                    with self._turn:
                        self._between(connection)
        with self._turn:
            connection.close()

    def _done_in_place(self, job: Job) -> tuple[bool, Any] | None:
        """The job's result, or None when it has to go to the thread."""
        if self._brief_seconds > QUICK_SECONDS or self._in_place >= MOST_IN_PLACE or not self._jobs.empty():
            return None
        mine = False
        try:  # before the turn is taken: a signal may raise at any moment
            mine = self._turn.acquire(blocking=False)
            if not mine:
                return None
            began = perf_counter()
            self._in_place += 1
            with hurried(self._connection):
                ((good, value),) = self._transact(self._connection, [job])
            if not good and isinstance(value, StoreBusy):
                self._brief_seconds = float("inf")  # there is somebody else: only waiting will do
                return None
            self._took(perf_counter() - began)
            return good, value
        finally:
            if mine:
                self._turn.release()

    def _took(self, seconds: float) -> None:
        known = self._brief_seconds
        self._brief_seconds = seconds if known == float("inf") else known + (seconds - known) / REMEMBERED

    def _transact(self, connection: apsw.Connection, jobs: list[Job]) -> list[tuple[bool, Any]]:
        if self._broken:
            return [(False, StoreUnavailable(self._broken))] * len(jobs)
        files = self._files
        try:
            if files is not None and not files.intact:
                files.check()  # what goes into a file that is away is written in vain
            with translated(self._path):
                connection.execute(self._begin)
                if len(jobs) == 1:
                    results: list[tuple[bool, Any]] = [(True, jobs[0](connection))]
                else:
                    results = [self._alone(connection, job) for job in jobs]
                connection.execute("COMMIT")
            if files is not None:
                files.check()
        except BaseException as error:  # noqa: BLE001 - given to whoever asked
            self._roll_back(connection)
            if isinstance(error.__cause__, apsw.IOError) and isinstance(error, StoreUnavailable):
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

    def _deliver(self, asked: list[_Asked], results: list[tuple[bool, Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], bool, Any]]] = {}
        for one, (good, value) in zip(asked, results, strict=True):
            by_loop.setdefault(one.loop, []).append((one.future, good, value))
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
