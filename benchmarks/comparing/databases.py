"""Where systems work: each measurement in an empty database, on one private server or on one disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import apsw

from eventhub.bench.databases import PostgresDatabases, SqliteDatabases
from eventhub.store.postgres.connection import connect

__all__ = ["EmptyPostgres", "EmptySqlite", "Places", "held_snapshot", "tidy_postgres"]


async def tidy_postgres(url: str) -> None:
    """What was filled is on the disk, and the planner knows it, before anything is measured.

    Else PostgreSQL would do so within minutes, in the middle of somebody's measurement.
    """
    connection = await connect(url)
    try:
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


class EmptyPostgres(PostgresDatabases):
    """Fresh databases without any table. All systems come over TCP, because not all know Unix sockets."""

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url, tcp=True)

    @asynccontextmanager
    async def empty(self) -> AsyncIterator[str]:
        name = await self._create()
        try:
            yield self.network_url(self._at(name))
        finally:
            await self._drop(name)

    async def tidy(self, url: str) -> None:
        await tidy_postgres(url)


class EmptySqlite(SqliteDatabases):
    """Files that do not exist yet, each in a directory of its own."""

    @asynccontextmanager
    async def empty(self) -> AsyncIterator[str]:
        directory = tempfile.mkdtemp(dir=self._directory)
        try:
            yield str(Path(directory) / "bench.db")
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    async def tidy(self, url: str) -> None:
        """What was filled is in the file itself, not in its write-ahead log."""
        with closing(apsw.Connection(url)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


Places = EmptyPostgres | EmptySqlite


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncIterator[None]:
    """Another session with an open transaction that has looked: nothing that dies from now on can be cleaned away."""
    connection = await connect(url)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetch("SELECT count(*) FROM pg_class")
        yield
    finally:
        await connection.close()
