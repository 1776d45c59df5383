"""The embedded engine: one SQLite file, through apsw's own SQLite."""

from eventhub.store.sqlite.engine import SqliteStore

__all__ = ["SqliteStore"]
