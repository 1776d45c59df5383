"""Moving the write-ahead log into the file beside the writer, which goes on meanwhile.

SQLite would do it within a commit that finds the log long, and whoever writes would wait for it: a sixth of the time of
a bulk load, or more. But the log begins anew only at a moment when all of it is moved, and that never comes while
somebody writes all the time. So most of it is moved by a thread of its own, and the little that was written meanwhile
by the writer, between two commits. A writer that is quicker than the disk is held up in the end: the log has bounds.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import Final

import apsw

from eventhub.store.sqlite.connection import CHECKPOINT_PAGES, reopen

__all__ = ["Checkpoints"]

MOST_PAGES: Final = 16 * CHECKPOINT_PAGES
"""A log of this length holds the writer up."""
FEW_PAGES: Final = CHECKPOINT_PAGES // 4
"""So many are written before the writer tries again, when it could not move all."""
MOST_PASSES: Final = 8
"""Who commits more often than the disk can follow would never be done with."""


class Checkpoints:
    """Keeps the write-ahead log of one writer short."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._pages = 0
        self._due = CHECKPOINT_PAGES
        self._mover: threading.Thread | None = None

    def watch(self, connection: apsw.Connection) -> None:
        """Note the length of the log after each commit of a connection, in place of moving it there."""

        def committed(_: apsw.Connection, __: str, pages: int) -> int:
            if pages < self._pages:  # the log has begun anew
                self._due = CHECKPOINT_PAGES
            self._pages = pages
            return apsw.SQLITE_OK

        connection.set_wal_hook(committed)

    def tend(self, connection: apsw.Connection) -> None:
        """Between two commits of the writer: have the log moved when it is long, and move the rest of it."""
        if self._pages < self._due:
            return
        mover = self._mover
        if mover is not None and mover.is_alive() and self._pages < MOST_PAGES:
            return
        if mover is None and self._pages < MOST_PAGES and self._begin():
            return
        self.stop()
        _move_now(connection)
        self._due = self._pages + FEW_PAGES  # it goes on if a reader was in the way

    def stop(self) -> None:
        """Wait for what is going on."""
        if self._mover is not None:
            self._mover.join()
            self._mover = None

    def _begin(self) -> bool:
        mover = threading.Thread(target=self._move, name="eventhub-checkpoint", daemon=True)
        try:
            mover.start()
        except RuntimeError:  # there are too many threads, or the interpreter is about to end
            return False
        self._mover = mover
        return True

    def _move(self) -> None:
        """Until nothing was written meanwhile: only then does SQLite wait for the disk to have what was moved, and the
        writer, which moves what comes after that, would wait for all of it.
        """
        moved = 0
        with suppress(apsw.Error), closing(reopen(self._path, synchronous=self._synchronous)) as own:
            for _ in range(MOST_PASSES):
                upto = _move_now(own)
                if upto == moved:
                    break
                moved = upto


def _move_now(connection: apsw.Connection) -> int:
    """Move what can be moved; returns how many pages of the log are in the file."""
    try:
        _, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:  # as SQLite itself takes it: what cannot be moved now is moved later
        return 0
    return moved
