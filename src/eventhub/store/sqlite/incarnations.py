"""A new incarnation of an SQLite file, which was replaced by a backup of itself: only its owner knows, and says so."""

from __future__ import annotations

import apsw

from eventhub.core.strict_json import dump
from eventhub.errors import StoreBusy
from eventhub.store import acts
from eventhub.store.incarnations import Incarnation, Restored
from eventhub.store.sqlite.audit import audited
from eventhub.store.sqlite.connection import clock, connect, hurried, migrate, translated
from eventhub.store.sqlite.publishing import SQL, publish_calls
from eventhub.store.values import NewEvent, Route

__all__ = ["RESTORED", "begin", "identify"]

RESTORED = "hub.restored"
"""The event that tells of it, which is completed at once."""


def identify(connection: apsw.Connection) -> Incarnation:
    number, began_at, hub = next(connection.execute(SQL.identify))
    return Incarnation(number, began_at, hub)


def begin(path: str, synchronous: str) -> Restored:
    """Begin it with nobody else there: whoever has the file open would go on with what he remembers."""
    connection = connect(path, synchronous=synchronous)
    try:
        migrate(connection, path)
        _check_alone(connection, path)
        with translated(path):
            connection.execute("BEGIN IMMEDIATE")
            done = audited(acts.restored, _begin)(connection, clock())
            connection.execute("COMMIT")
        return done
    finally:
        connection.close()


def _check_alone(connection: apsw.Connection, path: str) -> None:
    """Leaving write-ahead logging needs the file alone; whoever opens it next enters it again."""
    try:
        with hurried(connection):
            alone = connection.execute("PRAGMA journal_mode = DELETE").get != "wal"
    except apsw.BusyError:
        alone = False
    if not alone:
        raise StoreBusy(
            f"{path} is open in another process, which would go on with what it remembers of the file before. Stop all "
            "that use it, then run `eventhub restored` again."
        )


def _begin(connection: apsw.Connection, now: int) -> Restored:
    start = int(connection.execute(SQL.begin_incarnation, {"now": now}).get)
    connection.execute(SQL.leap_rows, {"start": start})
    connection.execute(SQL.leap_numbers, {"start": start})
    for statement in (SQL.count_incarnation, SQL.leap_fences, SQL.leap_versions, SQL.leap_locks):
        connection.execute(statement)
    incarnation = identify(connection)
    event = NewEvent(
        type=RESTORED, payload=dump({"incarnation": incarnation.number}), route=Route("hub"), completed=True
    )
    publish_calls(connection, [[event]], {}, now)
    connection.execute(SQL.leap_log, {"start": start})
    return Restored(incarnation=incarnation, after=start - 1)
