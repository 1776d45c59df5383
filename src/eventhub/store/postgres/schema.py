"""Bringing the tables up to date while other processes work on them.

    one of those that start ──► holds the guard ──► each migration: try ──► done
                                                          ▲      │ a table is not free within LOCK_SECONDS
                                                          └ pause ◄┘

Whoever waits for a lock that excludes others keeps all of them waiting who come after him, however long a reader takes
to let go of the table. So a migration waits for half a second only, gives back what it has, and tries again; the others
that start wait for the guard meanwhile, not for the tables.

A migration is one transaction. One whose file begins with the line ``-- concurrently`` is not: its statements run one
by one, none of them keeps writers waiting, and each can be run again if the process dies before the last of them.
"""

from __future__ import annotations

import asyncio
import random
import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import structlog

from eventhub.errors import SchemaMismatch, StoreBusy, StoreError
from eventhub.store.opening import shown
from eventhub.store.postgres.connection import OLDEST_SERVER, translated
from eventhub.store.queries import load_migrations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventhub.store.postgres.server import Server

__all__ = ["migrate"]

PACKAGE: Final = "eventhub.store.postgres"
CONCURRENTLY: Final = "-- concurrently"
LOCK_SECONDS: Final = 0.5
"""How long running processes may be kept waiting by an attempt, and by whatever it waits for."""
PAUSE_SECONDS: Final = 1.0
GUARD_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
MIGRATE_SECONDS: Final = 3600
"""How long one migration may take: an index on many millions of events is not built in the time of a statement."""
GUARD: Final = "SELECT pg_try_advisory_xact_lock(hashtext('eventhub.migrating'))"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('eventhub.migrate'))"
FIND_META: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'eventhub' AND tablename = 'meta')"
)
FIND_VERSION: Final = "SELECT value FROM eventhub.meta WHERE key = 'schema_version'"
SET_VERSION: Final = """
INSERT INTO eventhub.meta VALUES ('schema_version', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
FIND_UNFINISHED: Final = """
SELECT c.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = 'eventhub'::regnamespace AND c.relname = ANY ($1)
"""
_INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)")

Migration = tuple[int, str, str]
log: Final = structlog.get_logger("eventhub.store")


async def migrate(
    server: Server, pool: asyncpg.Pool[asyncpg.Record], migrations: Sequence[Migration] | None = None
) -> int:
    """Bring the tables up to date; safe when several processes start at once, and when one dies in the middle."""
    known = load_migrations(PACKAGE) if migrations is None else migrations
    newest = known[-1][0]
    with translated(server.url):
        async with pool.acquire() as connection:
            _check_server(connection, server.url)
            version = await _version(connection)
            if version < newest:
                version = await _migrate_alone(server, connection, known)
    if version > newest:
        raise SchemaMismatch(
            f"{shown(server.url)} has tables of version {version}, this eventhub knows up to {newest}. "
            "Upgrade eventhub, or use a database made by this version."
        )
    return version


def _check_server(connection: Any, url: str) -> None:
    found = connection.get_server_version().major
    if found < OLDEST_SERVER:
        raise StoreError(
            f"{shown(url)} is PostgreSQL {found}; eventhub needs {OLDEST_SERVER} or newer. Upgrade the server."
        )


async def _migrate_alone(server: Server, connection: Any, migrations: Sequence[Migration]) -> int:
    """All that is missing, while a transaction of a second connection keeps out the others who start now.

    A lock of the session would not survive a pooler. This transaction has no snapshot, for the building of an index
    waits for everybody who has one.
    """
    guard = await server.connect()
    try:
        while not await _take_guard(guard):  # noqa: ASYNC110 - another process will release it
            await asyncio.sleep(GUARD_SECONDS)
        version = await _version(connection)
        for migration in migrations:
            if version < migration[0]:
                version = await _apply(connection, migration, server.url)
    finally:
        guard.terminate()
    return version


async def _take_guard(guard: Any) -> bool:
    """Whether the guard is held now, by a transaction that stays open."""
    transaction = guard.transaction()
    await transaction.start()
    if not await guard.fetchval(GUARD):
        await transaction.rollback()
        return False
    # Without arguments this goes by the simple protocol, which ends the statement before, and with it its snapshot.
    await guard.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    return True


async def _apply(connection: Any, migration: Migration, url: str) -> int:
    """Returns the version that the tables have then."""
    number, name, script = migration
    if script.startswith(CONCURRENTLY):
        await _run_concurrently(connection, number, script)
        return number
    began, pause = monotonic(), PAUSE_SECONDS
    while True:
        try:
            return await _try(connection, number, script)
        except asyncpg.LockNotAvailableError as error:
            if monotonic() - began > MIGRATE_SECONDS:
                raise StoreBusy(
                    f"{shown(url)}: the tables could not be brought to version {number} ({name}) within an hour: "
                    f"{error}. Look in pg_stat_activity for a session that began long ago, such as a dump."
                ) from error
            if pause == PAUSE_SECONDS:
                log.warning(
                    "a migration waits for a table that others use, and tries again until it is free",
                    database=shown(url),
                    migration=f"{number:04}_{name}",
                    remedy="Look in pg_stat_activity for a session that began long ago, such as a dump.",
                )
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spread, not secrecy
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


async def _try(connection: Any, number: int, script: str) -> int:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}")
        await connection.execute(LOCK)
        version = await _version(connection)  # a process of an older version knows nothing of the guard
        if version < number:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS eventhub")
            await connection.execute(script, timeout=MIGRATE_SECONDS)
            await connection.execute(SET_VERSION, str(number))
            version = number
    return version


async def _run_concurrently(connection: Any, number: int, script: str) -> None:
    """An index whose building was interrupted is there, and no good: it is built anew."""
    for (name,) in await connection.fetch(FIND_UNFINISHED, _INDEX.findall(script)):
        await connection.execute(f'DROP INDEX CONCURRENTLY IF EXISTS eventhub."{name}"', timeout=MIGRATE_SECONDS)
    for statement in re.split(r";\s*(?:\n|$)", re.sub(r"(?m)^--.*\n?", "", script)):
        if statement.strip():
            await connection.execute(statement, timeout=MIGRATE_SECONDS)
    await connection.execute(SET_VERSION, str(number))


async def _version(connection: Any) -> int:
    # Not to_regclass: it may answer from this session's cache, and then a table that another process has made while
    # this one waited for the lock would not be seen.
    if not await connection.fetchval(FIND_META):
        return 0
    return int(await connection.fetchval(FIND_VERSION))
