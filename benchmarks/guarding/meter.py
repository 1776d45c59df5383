"""The meter: how long some work took, and how much of the cores it had – ours, and the database's for us."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any, Final

import apsw
import msgspec

from eventhub.bench.settings import Engine
from eventhub.store.postgres.connection import connect
from eventhub.store.sqlite.connection import reopen

__all__ = ["Meter", "Taken", "open_meter"]

SESSIONS: Final = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
)
NANOSECONDS: Final = 1e9
MOMENT: Final = 0.0005


class Taken(msgspec.Struct, frozen=True):
    seconds: float
    cpu: float


class Meter(ABC):
    async def __call__(self, work: Awaitable[Any]) -> Taken:
        gc.collect()
        self.settle()
        cpu, started = await self.cpu(), perf_counter()
        await work
        self.settle()
        seconds = perf_counter() - started
        return Taken(seconds, await self.cpu() - cpu)

    @abstractmethod
    def settle(self) -> None:
        """Finish what was put off, so that it is paid for by the work that left it."""

    @abstractmethod
    async def cpu(self) -> float:
        """Seconds that were had of the cores so far."""


class SqliteMeter(Meter):
    """All threads of this process do the work of the database, too."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def settle(self) -> None:
        """Move the write-ahead log into the file. SQLite waits for readers and writers, not for others who move it."""
        while True:
            try:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                sleep(MOMENT)
            else:
                return

    async def cpu(self) -> float:
        return process_time()


class PostgresMeter(Meter):
    """This process, and the sessions in its database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def settle(self) -> None:
        """The server's own processes do it, and are not counted."""

    async def cpu(self) -> float:
        sessions = await self._connection.fetch(SESSIONS)
        return process_time() + sum(_ran(process) for (process,) in sessions)


def _ran(process: int) -> float:
    ran, *_ = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()
    return int(ran) / NANOSECONDS


@asynccontextmanager
async def open_meter(engine: Engine, url: str) -> AsyncIterator[Meter]:
    if engine == "sqlite":
        with closing(reopen(url, synchronous="FULL")) as file:
            yield SqliteMeter(file)
        return
    connection = await connect(url)
    try:
        yield PostgresMeter(connection)
    finally:
        await connection.close()
