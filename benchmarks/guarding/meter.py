"""The meter: how long some work took, and how much of the cores it had – ours, and PostgreSQL's for us."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import msgspec

from eventhub.bench.settings import Engine
from eventhub.store.postgres.connection import connect

__all__ = ["Meter", "Taken", "open_meter"]

SESSIONS: Final = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
)
NANOSECONDS: Final = 1e9


class Taken(msgspec.Struct, frozen=True):
    seconds: float
    cpu: float


class Meter:
    def __init__(self, connection: Any = None) -> None:
        self._connection = connection

    async def __call__(self, work: Awaitable[Any]) -> Taken:
        gc.collect()
        cpu, started = await self._cpu(), perf_counter()
        await work
        seconds = perf_counter() - started
        return Taken(seconds, await self._cpu() - cpu)

    async def _cpu(self) -> float:
        """Seconds of all threads of this process, and of the sessions in its database."""
        used = process_time()
        if self._connection is not None:
            used += sum(_ran(process) for (process,) in await self._connection.fetch(SESSIONS))
        return used


def _ran(process: int) -> float:
    ran, *_ = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()
    return int(ran) / NANOSECONDS


@asynccontextmanager
async def open_meter(engine: Engine, url: str) -> AsyncIterator[Meter]:
    if engine == "sqlite":
        yield Meter()
        return
    connection = await connect(url)
    try:
        yield Meter(connection)
    finally:
        await connection.close()
