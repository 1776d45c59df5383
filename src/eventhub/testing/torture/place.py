"""Where a run takes place: a database of its own, and the lines to it and to the servers, which may be bad.

A database of somebody is looked at by plain statements before a store opens it, for a store would bring its tables up
to date.
"""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from eventhub.errors import SchemaMismatch, SettingsError, StoreError
from eventhub.store.opening import shown
from eventhub.store.queries import load_migrations, load_queries
from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError
from eventhub.testing.torture.harm import ANY, COMMIT, POST, Line
from eventhub.testing.torture.harm import DATABASE as TO_DATABASE
from eventhub.testing.torture.harm import SERVERS as TO_SERVERS
from eventhub.testing.torture.proxy import Proxy

__all__ = ["DATABASE", "Database", "database_at", "file_of", "lines_to", "look", "own_server"]

DATABASE: Final = "torture"
"""The name of the database on a server of our own."""
FILE: Final = "hub.db"
SQL: Final = load_queries("eventhub.testing.torture")
HERE: Final = "127.0.0.1"
USUAL_PORT: Final = 5432
PLAIN: Final = ("disable", "allow", "prefer")
"""Values of ``sslmode`` that a connection without TLS is in keeping with."""
LOOKS: Final = 3
MOST_SKEW: Final = 1.0


class Database(msgspec.Struct, kw_only=True):
    """The database of a run: its URL, the same through a line that may be bad, and what there is to know about both."""

    url: str
    lossy_url: str
    network: str
    """In words: which lines may be bad."""
    skew: float = 0.0
    """How far its clock may be from ours, in seconds."""


# -------------------------------------------------------------- whose database


async def look(url: str) -> float:
    """Refuse a PostgreSQL database that is somebody's. Returns how far its clock may be from ours, in seconds."""
    from eventhub.store.postgres.connection import connect, translated

    connection = await connect(url)
    try:
        with translated(url):
            if await connection.fetchval(SQL.has_schema):
                await _refuse_what_is_used(connection, url)
            return await _skew(connection, url)
    except SchemaMismatch as error:
        raise SettingsError(f"{shown(url)} has a schema eventhub with other tables than ours. {_REMEDY}") from error
    finally:
        await connection.close()


async def _refuse_what_is_used(connection: Any, url: str) -> None:
    newest = load_migrations("eventhub.store.postgres")[-1][0]
    version = await connection.fetchval(SQL.schema_version)
    if version != str(newest):
        raise SettingsError(f"{shown(url)} has tables of version {version}, and this is {newest}. {_REMEDY}")
    kept = [row[0] for row in await connection.fetch(SQL.kept_there)]
    if kept:
        raise SettingsError(f"{shown(url)} is in use: there is something in {', '.join(kept)}. {_REMEDY}")


_REMEDY: Final = "A run needs a database of its own, which is empty: create one, such as with createdb."


async def _skew(connection: Any, url: str) -> float:
    """Events of the database and of processes are put in order by both clocks, so they must not be far apart."""
    found: list[float] = []
    for _ in range(LOOKS):
        before = time.time()
        theirs = float(await connection.fetchval(SQL.server_clock))
        after = time.time()
        found.append(max(before - theirs, theirs - after, 0.0) + (after - before))
    if min(found) > MOST_SKEW:
        raise SettingsError(
            f"The clock of {shown(url)} is {min(found):.1f} s away from that of this machine, and what happened cannot "
            f"be put in order. Set both by the same time server; {MOST_SKEW:.0f} s are allowed."
        )
    return min(found)


# --------------------------------------------------------------------- lines


def file_of(directory: Path) -> Database:
    """A new SQLite database."""
    file = directory.absolute() / FILE
    if file.exists():
        raise SettingsError(f"{file} is there already; give another --directory.")
    return Database(url=str(file), lossy_url=str(file), network="to the servers")


async def database_at(url: str, through: str, lines: list[Line], stack: AsyncExitStack) -> Database:
    """A PostgreSQL database; ``through`` is its URL for a line that may be bad, which is added to ``lines``."""
    skew = await look(url)
    reason = why_not(through)
    if not reason:
        proxy = await stack.enter_async_context(Proxy(_port(through), _host(through)))
        lossy_url = through_proxy(through, proxy.port)
        reason = await _refusal(lossy_url)
    if reason:
        return Database(url=url, lossy_url=url, network=f"to the servers, not to the database: {reason}", skew=skew)
    lines.append(Line(proxy, TO_DATABASE, (COMMIT, ANY)))
    return Database(url=url, lossy_url=lossy_url, network="to the servers and to the database", skew=skew)


async def lines_to(ports: tuple[int, int], stack: AsyncExitStack) -> list[Line]:
    return [Line(await stack.enter_async_context(Proxy(port)), TO_SERVERS, (POST, ANY)) for port in ports]


def why_not(url: str) -> str:
    """Why no proxy can stand between us and this database, or nothing."""
    if "," in urlsplit(url).netloc:
        return "it has several hosts"
    if not _host(url) or _host(url).startswith("/"):
        return "it is reached by a socket"
    mode = _query(url).get("sslmode", os.environ.get("PGSSLMODE", "prefer"))
    return "" if mode in PLAIN else f"sslmode={mode} hides from a proxy what is a commit"


def through_proxy(url: str, port: int) -> str:
    """The same database through a port of this host, and without TLS, in which no commit would be seen."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    query = {name: value for name, value in _query(url).items() if name not in ("host", "port", "sslmode")}
    text = urlencode({**query, "sslmode": "disable"})
    return urlunsplit((parts.scheme, f"{login}{at}{HERE}:{port}", parts.path, text, ""))


async def _refusal(url: str) -> str:
    """Why a server does not take connections like this, or nothing."""
    from eventhub.store.postgres.connection import connect

    try:
        connection = await connect(url)
    except (StoreError, SettingsError) as error:
        return f"without TLS and through a proxy it says {error}"
    await connection.close()
    return ""


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def _host(url: str) -> str:
    return urlsplit(url).hostname or _query(url).get("host", "")


def _port(url: str) -> int:
    return urlsplit(url).port or int(_query(url).get("port", USUAL_PORT))


def own_server(stack: AsyncExitStack) -> PostgresCluster:
    """A private PostgreSQL with fsync on."""
    try:
        cluster = stack.enter_context(PostgresCluster(tcp=True, fsync=True, max_connections=200))
    except PostgresError as error:
        raise SettingsError(f"{error} Or give --db with the URL of an empty database.") from error
    cluster.create_database(DATABASE)
    return cluster
