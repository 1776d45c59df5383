"""Opening an SQLite file the safe way, and saying in words what went wrong with it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from eventhub.errors import SchemaMismatch, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from eventhub.store.queries import load_migrations
from eventhub.store.rows import micros

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BUSY_SECONDS", "check_library", "clock", "connect", "hurried", "migrate", "reopen", "translated"]

BUSY_SECONDS = 10.0
_PATIENCE = int(BUSY_SECONDS * 1000)
CHECKPOINT_PAGES = 1000
"""So long may the write-ahead log be before it is moved into the file. The first time it is written a commit also waits
for the file system to note how long it has become; the sooner it begins anew, the sooner it goes into places it has."""
PACKAGE = "eventhub.store.sqlite"
FIND_META = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'eventhub_meta')"
GET_VERSION = "SELECT value FROM eventhub_meta WHERE key = 'schema_version'"
SET_VERSION = (
    "INSERT INTO eventhub_meta VALUES ('schema_version', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def clock(now: datetime | None = None) -> int:
    """The time by the database's clock, which is that of its host, unless one is given."""
    return int(time.time() * 1e6) if now is None else micros(now)


def check_library() -> None:
    """Refuse SQLite builds whose WAL mode can corrupt a file that two connections write."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < (3, 51, 3) or version == (3, 52, 0):
        raise StoreError(
            f"SQLite {apsw.sqlite_lib_version()} has a bug that can corrupt a WAL database; "
            "install apsw 3.53 or newer from PyPI, which brings its own SQLite."
        )


def connect(path: str, *, synchronous: str = "FULL", read_only: bool = False) -> apsw.Connection:
    """A connection with our settings; a database in memory is private to it."""
    with translated(path):
        if path != ":memory:" and not Path(path).absolute().parent.is_dir():
            raise StoreUnavailable(
                f"Cannot open {path}: the directory {Path(path).absolute().parent} does not exist. Create it first."
            )
        if path != ":memory:" and Path(path).is_dir():
            raise StoreUnavailable(
                f"Cannot open {path}: it is a directory. Give the path of a file, such as {Path(path) / 'eventhub.db'}."
            )
        if path != ":memory:":
            _create_private(path)
        connection = apsw.Connection(path)
        connection.set_busy_timeout(_PATIENCE)
        connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        # Plans do not depend on the values that are bound: otherwise a statement is compiled anew for other values, and
        # that takes longer than most of ours run.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if path != ":memory:":
            mode = _enter_wal(connection)
            if mode != "wal":
                raise StoreError(
                    f"{path} cannot use write-ahead logging (it stays in {mode!r} mode); "
                    "keep the file on a local disk, not on a network share."
                )
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA temp_store = MEMORY")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    return connection


def reopen(path: str, *, synchronous: str) -> apsw.Connection:
    """Another connection to a file that is in use: it is neither made nor changed."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_PATIENCE)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


@contextmanager
def hurried(connection: apsw.Connection) -> Iterator[None]:
    """Wait for no other process."""
    try:
        connection.set_busy_timeout(0)
        yield
    finally:
        connection.set_busy_timeout(_PATIENCE)


def _create_private(path: str) -> None:
    # Payloads are nobody else's to read. A file that is there keeps its mode, and SQLite gives its companions (-wal,
    # -shm) the mode of the file.
    with suppress(OSError):  # one that cannot be made is SQLite's to name
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600))


def _enter_wal(connection: apsw.Connection) -> str:
    # Switching to WAL needs the file alone and does not wait for it, so several starting processes take turns here.
    patience = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return str(connection.pragma("journal_mode", "wal"))
        except apsw.BusyError:
            if time.monotonic() > patience:
                raise
            time.sleep(0.01)


def migrate(connection: apsw.Connection, path: str) -> int:
    """Bring the tables up to date, one migration a transaction; safe when several processes start at once."""
    migrations = load_migrations(PACKAGE)
    newest = migrations[-1][0]
    with translated(path):
        for number, _, script in migrations:
            if _version(connection) >= number:
                continue
            connection.execute("BEGIN IMMEDIATE")
            try:
                if _version(connection) < number:  # another process may have been first
                    connection.execute(script)
                    connection.execute(SET_VERSION, (str(number),))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        version = _version(connection)
    if version > newest:
        raise SchemaMismatch(
            f"{path} has tables of version {version}, this eventhub knows up to {newest}. "
            "Upgrade eventhub, or open a database made by this version."
        )
    return version


def _version(connection: apsw.Connection) -> int:
    # Not table_exists: it answers from the connection's memory, where a table that another process has just made is
    # still missing.
    if not connection.execute(FIND_META).get:
        return 0
    return int(connection.execute(GET_VERSION).get)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, with the remedy."""
    try:
        yield
    except apsw.BusyError as error:
        raise StoreBusy(
            f"{path} is locked: another process has held its write lock for more than {BUSY_SECONDS:.0f} s. "
            "End that transaction (a stuck script, a database browser) and try again."
        ) from error
    except apsw.ReadOnlyError as error:
        raise StoreReadOnly(
            f"{path} cannot be written ({error}). Check the permissions of the file and of its directory."
        ) from error
    except apsw.FullError as error:
        raise _full(path) from error
    except apsw.CantOpenError as error:
        raise _cannot_open(path, error) from error
    except apsw.NotADBError as error:
        raise StoreError(f"{path} is not an SQLite database. Give another path, or move that file away.") from error
    except apsw.IOError as error:
        raise _failed(path, error) from error
    except apsw.CorruptError as error:
        raise StoreError(f"{path} is damaged ({error}). Restore it from a backup.") from error
    except apsw.SQLError as error:
        raise StoreError(f"{path}: {error}") from error


def _full(path: str) -> StoreFull:
    return StoreFull(f"{path}: the disk is full. Free some room; nothing that was acknowledged is lost.")


def _failed(path: str, error: apsw.IOError) -> StoreError:
    # The index of the log (-shm) could not be made longer: SQLite does not say why. It holds nothing that must last, so
    # nothing is in doubt, and the next transaction tries again.
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        return _full(path)
    return StoreUnavailable(f"{path}: the disk reported an input/output error ({error}). Check the disk, then restart.")


def _cannot_open(path: str, error: apsw.CantOpenError) -> StoreError:
    if _is_full(path):
        return _full(path)
    return StoreUnavailable(f"Cannot open {path} ({error}). Check that the directory exists and can be written.")


def _is_full(path: str) -> bool:
    """Whether no file can be made beside it: there is no room left, or no number for another file."""
    try:
        there = os.statvfs(Path(path).absolute().parent)
    except OSError:
        return False
    return there.f_bavail == 0 or (there.f_files > 0 and there.f_favail == 0)
