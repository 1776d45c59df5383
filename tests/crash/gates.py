"""Holding a process at a certain step, without its knowing: a lock on a table that it needs there."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

WHOLE = "ACCESS EXCLUSIVE"
WRITES = "SHARE ROW EXCLUSIVE"


class Gate:
    """A table that nobody else can write, or read, for a while."""

    def __init__(self, looker: "asyncpg.Connection[Any]", table: str) -> None:
        self._looker, self._table = looker, table

    async def waiting(self) -> list[int]:
        found = await self._looker.fetch(
            "SELECT pid FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass", f"eventhub.{self._table}"
        )
        return [row["pid"] for row in found]

    async def reached(self, seconds: float = 60.0) -> None:
        """Somebody stands before it."""
        end = time.monotonic() + seconds
        while not await self.waiting():
            assert time.monotonic() < end, f"nobody came to {self._table} within {seconds} s"
            await asyncio.sleep(0.002)

    async def turn_away(self, seconds: float = 30.0) -> None:
        """Whoever waits gets nothing done any more: its connection ends, as that of a killed process does."""
        end = time.monotonic() + seconds
        while pids := await self.waiting():
            assert time.monotonic() < end, f"{pids} still wait for {self._table} after {seconds} s"
            for pid in pids:
                await self._looker.execute("SELECT pg_terminate_backend($1)", pid)
            await asyncio.sleep(0.002)


@asynccontextmanager
async def gate(url: str, table: str, mode: str) -> AsyncIterator[Gate]:
    """Closed as long as this lasts."""
    connection, looker = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE eventhub.{table} IN {mode} MODE")
            yield Gate(looker, table)
    finally:
        await connection.close()
        await looker.close()
