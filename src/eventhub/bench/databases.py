"""Where the benchmark works: always in fresh databases of its own, never in one that holds somebody's data."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from eventhub.bench.machine import file_system
from eventhub.bench.settings import Engine
from eventhub.errors import StoreError, StoreUnavailable
from eventhub.store import open_store
from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError

__all__ = ["Databases", "PostgresDatabases", "SqliteDatabases"]

SHOWN: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
)


class Databases(ABC):
    """Makes databases with our tables in them, and removes them."""

    engine: ClassVar[Engine]
    facts: dict[str, str]
    """Versions and settings, as the database itself tells them."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...
    @abstractmethod
    def fresh(self) -> Any:
        """The URL of an empty database, for the length of a block."""

    @property
    def on_network(self) -> bool:
        """Whether programs that know no sockets of this machine can come."""
        return False

    def network_url(self, url: str) -> str:
        """The same database for such programs."""
        return url


class SqliteDatabases(Databases):
    """Files in a temporary directory, made below ``directory`` if one is given: its disk is what is measured."""

    engine = "sqlite"

    def __init__(self, directory: Path | None = None) -> None:
        self._parent = directory
        self._directory: Path | None = None
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="eventhub-bench-", dir=self._parent))
        async with self.fresh() as path, open_store(path) as store:
            described = await store.describe()
        wanted = ("version", "journal_mode", "synchronous")
        self.facts = {name: str(described[name]) for name in wanted if name in described}
        self.facts["file system"] = file_system(self._directory)

    async def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        if self._directory is None:
            raise StoreError("These databases are not open; use `async with`.")
        path = self._directory / f"bench-{next(self._numbers)}.db"
        async with open_store(path):
            pass
        try:
            yield str(path)
        finally:
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()


class PostgresDatabases(Databases):
    """Databases on the server of ``url``, or on a private one. They are copied from one that has the tables."""

    engine = "postgres"

    def __init__(self, url: str | None = None, *, tcp: bool = False) -> None:
        if find_spec("asyncpg") is None:
            raise StoreError("PostgreSQL needs its driver: pip install 'eventhub[postgres]'.")
        self._cluster = _private_server(tcp=tcp) if url is None else None
        self._url = url
        self._numbers = itertools.count(1)
        self._admin: Any = None
        self._template = ""

    async def open(self) -> None:
        from eventhub.store.postgres.connection import connect

        if self._cluster is not None:
            try:
                await asyncio.to_thread(self._cluster.start)
            except PostgresError as error:
                raise StoreUnavailable(f"{error} Or give a server of your own: --db postgresql://…") from error
            self._url = self._cluster.url()
        self._admin = await connect(self._url or "")
        rows = await self._admin.fetch("SELECT name, current_setting(name) FROM unnest($1::text[]) AS name", SHOWN)
        self.facts = {**{name: value for name, value in rows}, "server": "private" if self._cluster else "given"}  # noqa: C416
        self._template = await self._create()
        async with open_store(self._at(self._template)):
            pass
        owner = await connect(self._at(self._template))
        try:  # copies are to be like new, and not another incarnation of this one
            await owner.execute("DELETE FROM eventhub.meta WHERE key = 'place'")
        finally:
            await owner.close()

    async def close(self) -> None:
        if self._admin is not None:
            if self._template:
                await self._drop(self._template)
            await self._admin.close()
            self._admin = None
        if self._cluster is not None:
            await asyncio.to_thread(self._cluster.close)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        name = await self._create(template=self._template)
        try:
            yield self._at(name)
        finally:
            await self._drop(name)

    @property
    def on_network(self) -> bool:
        if self._cluster is not None:
            return self._cluster.port is not None
        return bool(urlsplit(self._url or "").hostname)

    def network_url(self, url: str) -> str:
        if self._cluster is None or self._cluster.port is None:
            return url
        return self._cluster.tcp_url(urlsplit(url).path.removeprefix("/"))

    async def _create(self, *, template: str | None = None) -> str:
        name = f"eventhub_bench_{os.getpid()}_{next(self._numbers)}"
        await self._admin.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return name

    async def _drop(self, name: str) -> None:
        await self._admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _at(self, name: str) -> str:
        return urlsplit(self._url or "")._replace(path=f"/{name}").geturl()


def _private_server(*, tcp: bool) -> PostgresCluster:
    """Every commit waits for the disk; the rest is PostgreSQL's default, but for some room to work in."""
    return PostgresCluster(
        tcp=tcp,
        fsync=True,
        synchronous_commit="on",
        shared_buffers="256MB",
        max_wal_size="4GB",
        autovacuum_naptime="1min",
    )
