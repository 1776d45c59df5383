"""The files of an open database, and whether their names still stand for them.

SQLite writes to what it has opened. When the file is deleted, moved or replaced, commits go on without an error into a
file that nobody will find; so whoever acknowledges a commit asks here first.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final, Self

import apsw

from eventhub.errors import StoreReadOnly, StoreUnavailable

__all__ = ["DatabaseFiles"]

_WRITABLE: Final = 0o222


class DatabaseFiles:
    """What the file and its companions were when they were opened; SQLite itself removes none while they are open."""

    def __init__(self, path: str, companions: list[str]) -> None:
        self._path = path
        found = {name: os.stat(name) for name in (path, *companions)}  # noqa: PTH116 - as below
        self._opened = [(name, file.st_ino, file.st_mode) for name, file in found.items()]
        self.intact = True
        """False from a check that failed to one that did not: somebody may have put the file back."""

    @classmethod
    def of(cls, connection: apsw.Connection, path: str) -> Self | None:
        """Those of a connection; a database in memory has none."""
        if not connection.filename:
            return None
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # a read makes the companions
        log = connection.filename_wal
        moved = ctypes.c_int()
        try:
            files = cls(os.path.abspath(path), [log, log.removesuffix("-wal") + "-shm"])  # noqa: PTH100 - keeps links
            connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
        except FileNotFoundError:
            moved.value = 1
        if moved.value:
            raise StoreUnavailable(f"{path} was moved or deleted while it was being opened. Open it again.")
        return files

    def check(self) -> None:
        """Raise when a name stands for another file than the one that is open, or for none."""
        self.intact = False
        for name, number, mode in self._opened:
            try:
                found = os.stat(name)  # noqa: PTH116 - a Path would take longer, and this is done at each commit
            except (FileNotFoundError, NotADirectoryError):
                raise self._error(name, "it was deleted, or moved elsewhere") from None
            if found.st_ino != number:
                raise self._error(name, "another file is in its place")
            if found.st_mode != mode and mode & _WRITABLE and not found.st_mode & _WRITABLE:
                raise StoreReadOnly(
                    f"{name} was made read-only while it was open. Nothing is acknowledged: check its permissions."
                )
        self.intact = True

    def _error(self, name: str, what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{name} is not the file any more that was opened: {what}. Nothing is acknowledged, because what is "
            f"written now may never be found again. Put the file back, or restart to use what is at {self._path} now."
        )
