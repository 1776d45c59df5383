"""Everything that is known about a run, in one SQLite file: what processes wrote down, and what the store holds.

    histories ──┐
    the store ──┼──▶ evidence ──▶ checker ──▶ verdict
    the lake  ──┘

The file is all that the checker needs: it can be judged again, elsewhere and later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from eventhub import __version__
from eventhub.core.events import Status
from eventhub.core.matching import Pattern
from eventhub.core.subscribers import Subscriber
from eventhub.errors import SchemaMismatch
from eventhub.store import Store, open_store
from eventhub.store.ledger import Dataset
from eventhub.store.queries import load_queries
from eventhub.store.snapshots import SNAPSHOT_TABLES, SnapshotTable
from eventhub.testing.torture.history import Record, hash_of

__all__ = ["Facts", "gather", "gather_from", "open_evidence"]

Facts = Mapping[str, str | int | float]
Row = Sequence[Any]

SQL: Final = load_queries("eventhub.testing.torture")
FORM: Final = 2
"""Of a file of evidence: the number rises when its tables change."""
PORTION: Final = 20_000
"""Ids of events that are read from the store at a time."""
CHUNK: Final = 8 << 20
"""Bytes of a history that are read at a time."""
OPEN: Final = (Status.PENDING, Status.PROCESSING)
DEAD: Final = (Status.FAILED, Status.COMPLETED_WITH_ERRORS)


async def gather(
    directory: Path, store_url: str, into: Path, *, lake: Path | None = None, facts: Facts | None = None
) -> None:
    """Put the histories of a directory and all of a store into one new file; nobody may write meanwhile."""
    async with open_store(store_url) as store:
        await gather_from(store, directory, into, lake=lake, facts=facts)


async def gather_from(
    store: Store, directory: Path, into: Path, *, lake: Path | None = None, facts: Facts | None = None
) -> None:
    """The same from a store that is open."""
    with contextlib.closing(_new_file(into)) as connection, connection:
        connection.execute(SQL.make_evidence)
        _add_histories(connection, directory)
        await _add_store(connection, store)
        await _add_subscribers(connection, store)
        if lake is not None:
            _add_lake(connection, lake)
        told = {**await _stats(store), "engine": store.engine, "version": __version__, **(facts or {})}
        connection.executemany(SQL.add_fact, list(told.items()))
        connection.execute(SQL.index_evidence)


def _new_file(path: Path) -> apsw.Connection:
    path.unlink(missing_ok=True)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "OFF")  # a file that was not finished is of no use
    connection.pragma("synchronous", "OFF")
    return connection


def open_evidence(file: Path) -> apsw.Connection:
    """For reading; what is derived from it goes to temporary tables."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    if connection.pragma("user_version") != FORM:
        connection.close()
        raise SchemaMismatch(f"{file} was not gathered by this version of eventhub; judge it by the one that did.")
    connection.pragma("cache_size", -200_000)
    connection.pragma("mmap_size", 1 << 34)
    return connection


# -------------------------------------------------------------------- histories


def _add_histories(connection: apsw.Connection, directory: Path) -> None:
    decoder = msgspec.json.Decoder(Record)
    for lines in (lines for path in sorted(directory.glob("*.jsonl")) for lines in _chunks(path)):
        connection.executemany(SQL.add_record, map(msgspec.structs.astuple, decoder.decode_lines(lines)))


def _chunks(path: Path) -> Iterator[bytes]:
    """Whole lines; a torn last line was never finished and says nothing."""
    rest = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            whole, end, rest = (rest + chunk).rpartition(b"\n")
            if end:
                yield whole


# -------------------------------------------------------------------- the store


async def _add_store(connection: apsw.Connection, store: Store) -> None:
    end = 0
    while (first := await store.logged_from(end)) is not None:
        end = first + PORTION
        for table in SNAPSHOT_TABLES:
            statement, shaped = _TABLES[table]
            rows = await store.snapshot(table, first, end)
            connection.executemany(statement, map(shaped, rows))


def _event(row: Row) -> Row:
    number, kind, payload, key, idempotency, queue, created = row
    content = msgspec.json.decode(payload)
    facts = content if isinstance(content, dict) else {}
    return number, kind, facts.get("token"), hash_of(content), key, facts.get("key"), idempotency, queue, created


def _log(row: Row) -> Row:
    number, event_id, delivery_id, *rest = row
    return number, event_id, event_id if delivery_id is None else delivery_id, *rest


def _dead_letter(row: Row) -> Row:
    errors, payload = row[11], row[14]
    count = len(msgspec.json.decode(errors)) if errors else 0
    return *row[:12], count, *row[12:14], hash_of(msgspec.json.decode(payload)), *row[15:]


def _as_it_is(row: Row) -> Row:
    return row


_TABLES: Final[dict[SnapshotTable, tuple[str, Callable[[Row], Row]]]] = {
    "events": (SQL.add_event, _event),
    "log": (SQL.add_log, _log),
    "deliveries": (SQL.add_delivery, _as_it_is),
    "dead_letters": (SQL.add_dead_letter, _dead_letter),
    "markers": (SQL.add_marker, _as_it_is),
}


async def _add_subscribers(connection: apsw.Connection, store: Store) -> None:
    """With the types of events that each of them wants; whose filter looks into events is not judged by type."""
    types = [kind for (kind,) in connection.execute(SQL.known_types)]
    for row in (await store.subscribers())[1]:
        subscriber = Subscriber.parse(row.document)
        known = (row.id, row.name, row.status, subscriber.ordering_key, subscriber.max_attempts)
        filtered, created = subscriber.filter is not None, row.created_at.timestamp()
        connection.execute(SQL.add_subscriber, (*known, subscriber.guarantee, filtered, created))
        pattern = Pattern(subscriber.event_type)
        connection.executemany(SQL.add_want, [(kind, row.id) for kind in types if pattern.matches(kind)])


async def _stats(store: Store) -> dict[str, int]:
    depths = [queue.depth for queue in await store.stats()]
    return {
        "stats.events": sum(sum(depth.values()) for depth in depths),
        "stats.open": sum(depth[status] for depth in depths for status in OPEN),
        "stats.dead": sum(depth[status] for depth in depths for status in DEAD),
    }


# --------------------------------------------------------------------- the lake


def _add_lake(connection: apsw.Connection, lake: Path) -> None:
    """The events and the log that the lake has, each row as often as it has it."""
    for number, payload in _lake_rows(lake, "events", "id", "payload"):
        connection.execute(SQL.add_lake_event, (number, hash_of(msgspec.json.decode(payload))))
    connection.executemany(SQL.add_lake_log, _lake_rows(lake, "event_log", "id"))
    connection.execute(SQL.add_fact, ("lake", str(lake)))


def _lake_rows(lake: Path, dataset: Dataset, *columns: str) -> Iterator[Row]:
    from eventhub.lake.place import Lake

    table = Lake(str(lake)).dataset(dataset)
    if table.exists:
        for batch in table.rows().to_batches(columns=list(columns)):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)
