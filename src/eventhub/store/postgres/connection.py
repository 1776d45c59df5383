"""Connecting to PostgreSQL, and saying in words what went wrong with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from eventhub.errors import (
    EventHubError,
    SchemaMismatch,
    SettingsError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from eventhub.store import limits
from eventhub.store.opening import shown
from eventhub.store.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

__all__ = ["OLDEST_SERVER", "connect", "connect_session", "open_pool", "translated", "understood"]

OLDEST_SERVER = 14


async def open_pool(
    server: Server,
    size: int,
    *,
    connection_class: type[asyncpg.Connection[asyncpg.Record]],
    init: Callable[[Any], Coroutine[Any, Any, None]],
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool with our settings, each connection seen by ``init`` first.

    Raises StoreUnavailable with the remedy when the server does not answer.
    """
    with translated(server.url), understood(server.url):
        return await asyncpg.create_pool(
            min_size=1,
            max_size=size,
            command_timeout=limits.STATEMENT_SECONDS,
            max_inactive_connection_lifetime=300,
            connect=server.connect,
            reset=_reset,
            connection_class=connection_class,
            init=init,
        )


async def _reset(connection: Any) -> None:
    """Our statements leave no session state behind, so giving a connection back need not cost a round trip.

    Only a transaction that was cancelled in the middle of its own rollback may still be open. The driver has ended it
    before it calls this; one that was not ended must not be handed on, for what the next one writes would be lost.
    """
    if connection.is_in_transaction():
        connection.terminate()


async def connect(url: str, **settings: str) -> asyncpg.Connection[asyncpg.Record]:
    """One connection outside the pool, whose statements may take as long as they need."""
    with translated(url), understood(url):
        connection: asyncpg.Connection[asyncpg.Record] = await Server(url).connect(server_settings=settings)
        return connection


async def connect_session(url: str, **settings: str) -> asyncpg.Connection[asyncpg.Record]:
    """The same for what leaves something in its session, such as a temporary table: past a pooler that keeps none."""
    with translated(url), understood(url):
        server = Server(url)
        if server.listen_url:
            server = Server(server.listen_url)
        connection: asyncpg.Connection[asyncpg.Record] = await server.connect(server_settings=settings)
    if not server.keeps_sessions:
        connection.terminate()
        raise SettingsError(
            f"{shown(url)} is a pooler that keeps no sessions, and this needs one. Give the URL of the database "
            "itself, or add it to this one as listen_url, percent-encoded."
        )
    return connection


_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...] = (
    # what the driver raises, what we call it, and the remedy; the first that fits counts
    (
        (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
        StoreUnavailable,
        "The login was refused: check user and password.",
    ),
    ((asyncpg.InvalidCatalogNameError,), StoreUnavailable, "Create the database first, such as with createdb."),
    (
        (asyncpg.ReadOnlySQLTransactionError,),
        StoreReadOnly,
        "The database cannot be written; it may be a standby: give the address of the primary.",
    ),
    (
        (asyncpg.InsufficientPrivilegeError,),
        StoreReadOnly,
        "Grant the user the right to it: to read the schema eventhub for Spark, to create and write it for all else.",
    ),
    (
        (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError),
        StoreError,
        "A pooler that keeps no sessions stands between. Open your own connection with statement_cache_size=0.",
    ),
    ((asyncpg.DiskFullError,), StoreFull, "Free some room; nothing that was acknowledged is lost."),
    (
        (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.SerializationError),
        StoreBusy,
        "Try again.",
    ),
    (
        _UNREACHABLE,
        StoreUnavailable,
        "The database cannot be reached: check that the server runs and accepts connections, then try again.",
    ),
    (
        (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError),
        SchemaMismatch,
        "Run `eventhub migrate` against this database.",
    ),
    ((asyncpg.PostgresError,), StoreError, "This is unexpected; please report it with this message."),
)


@contextmanager
def understood(url: str) -> Iterator[None]:
    """A URL that the driver cannot read is the user's mistake; the driver's words about it may hold the password."""
    try:
        yield
    except SettingsError:
        raise
    except asyncpg.UndefinedObjectError as error:
        raise SettingsError(
            f"{shown(url)}: {error}. Take the parameter out of the URL: the server does not know it."
        ) from None
    except ValueError as error:
        if isinstance(error, OSError):
            raise  # a certificate that is not trusted
        why = f" ({error})" if isinstance(error, asyncpg.ClientConfigurationError) else ""
        raise SettingsError(
            f"{shown(url)} is not a PostgreSQL URL that can be read{why}. Give postgresql://user:password@host:port/"
            "database, with special characters in the password percent-encoded, such as %2F for a slash."
        ) from None


class translated:  # noqa: N801 - read as a word, like contextlib's suppress
    """Turn the driver's errors into ours, with the remedy; around every statement, so no generator is made for it."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, EventHubError):
            return
        if isinstance(error, asyncpg.InterfaceError) and "clos" not in str(error):
            return  # the driver was used wrongly, which is our mistake and no outage
        for kinds, ours, remedy in _MEANINGS:
            if isinstance(error, kinds):
                raise ours(f"{shown(self._url)}: {str(error) or type(error).__name__}. {remedy}") from error
