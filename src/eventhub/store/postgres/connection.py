"""Connecting to PostgreSQL, bringing its tables up to date, and saying in words what went wrong with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from eventhub.errors import (
    EventHubError,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventhub.store.queries import load_migrations

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SETTINGS", "connect", "migrate", "open_pool", "shown", "translated"]

PACKAGE = "eventhub.store.postgres"
OLDEST_SERVER = 14
SETTINGS = {"application_name": "eventhub", "jit": "off"}
LOCK = "SELECT pg_advisory_xact_lock(hashtext('eventhub.migrate'))"
CONNECT_SECONDS = 10


def shown(url: str) -> str:
    """The URL without its password, for messages."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"postgresql://{user}{parts.hostname or ''}{port}{parts.path}"


async def open_pool(url: str, size: int) -> asyncpg.Pool[asyncpg.Record]:
    """A pool with our settings; raises StoreUnavailable with the remedy when the server does not answer."""
    with translated(url):
        return await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size,
            command_timeout=60,
            timeout=CONNECT_SECONDS,
            max_inactive_connection_lifetime=300,
            server_settings=SETTINGS,
        )


async def connect(url: str, **settings: str) -> asyncpg.Connection[asyncpg.Record]:
    """One direct connection outside the pool."""
    with translated(url):
        return await asyncpg.connect(url, timeout=CONNECT_SECONDS, server_settings={**SETTINGS, **settings})


async def migrate(pool: asyncpg.Pool[asyncpg.Record], url: str) -> int:
    """Bring the tables up to date, one migration a transaction; safe when several processes start at once."""
    migrations = load_migrations(PACKAGE)
    newest = migrations[-1][0]
    with translated(url):
        async with pool.acquire() as connection:
            server = connection.get_server_version().major
            if server < OLDEST_SERVER:
                raise StoreError(
                    f"{shown(url)} is PostgreSQL {server}; eventhub needs {OLDEST_SERVER} or newer. Upgrade the server."
                )
            version = await _version(connection)
            for number, _, script in migrations:
                if version >= number:
                    continue
                async with connection.transaction():
                    await connection.execute(LOCK)
                    version = await _version(connection)  # another process may have been first
                    if version < number:
                        await connection.execute("CREATE SCHEMA IF NOT EXISTS eventhub")
                        await connection.execute(script)
                        await connection.execute(
                            "INSERT INTO eventhub.meta VALUES ('schema_version', $1) "
                            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                            str(number),
                        )
                        version = number
    if version > newest:
        raise SchemaMismatch(
            f"{shown(url)} has tables of version {version}, this eventhub knows up to {newest}. "
            "Upgrade eventhub, or use a database made by this version."
        )
    return version


async def _version(connection: Any) -> int:
    if not await connection.fetchval("SELECT to_regclass('eventhub.meta') IS NOT NULL"):
        return 0
    return int(await connection.fetchval("SELECT value FROM eventhub.meta WHERE key = 'schema_version'"))


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn the driver's errors into ours, with the remedy."""
    try:
        yield
    except EventHubError:
        raise
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise StoreUnavailable(f"{shown(url)} refused the login ({error}). Check user and password.") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise StoreUnavailable(f"{shown(url)}: {error}. Create the database first, such as with createdb.") from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise StoreReadOnly(
            f"{shown(url)} cannot be written ({error}). It may be a standby: give the address of the primary."
        ) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreReadOnly(
            f"{shown(url)}: {error}. Grant the user the right to create and write the schema eventhub."
        ) from error
    except asyncpg.DiskFullError as error:
        raise StoreFull(f"{shown(url)}: {error}. Free some room; nothing that was acknowledged is lost.") from error
    except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.SerializationError) as error:
        raise StoreBusy(f"{shown(url)}: {error}. Try again.") from error
    except (
        OSError,
        TimeoutError,
        asyncpg.PostgresConnectionError,
        asyncpg.CannotConnectNowError,
        asyncpg.TooManyConnectionsError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    ) as error:
        raise StoreUnavailable(
            f"{shown(url)} cannot be reached ({type(error).__name__}: {error}). "
            "Check that the server runs and accepts connections; the call can be tried again."
        ) from error
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError) as error:
        raise SchemaMismatch(f"{shown(url)}: {error}. Run `eventhub migrate` against this database.") from error
    except asyncpg.PostgresError as error:
        raise StoreError(f"{shown(url)}: {error}") from error
