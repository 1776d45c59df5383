"""Rows into the hub in bulk, as they are: restored days, and histories that were made up.

    batches ─▶ routes become numbers ─▶ rows that are there already stay as they are ─▶ later ids come after all of them

These are facts of the past: nothing is handed to workers or subscribers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from eventhub.errors import SettingsError
from eventhub.pipeline.loading.rows import RouteNumbers, event_rows, log_rows
from eventhub.store.opening import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.pipeline.loading.target import Target
    from eventhub.store.ledger import Dataset

__all__ = ["load", "open_target"]

ROWS_AT_ONCE: Final = 100_000
"""Rows of one transaction: a reader of the hub never waits for more."""


def load(url: str, dataset: Dataset, batches: Iterable[pa.RecordBatch], *, copied: bool = False) -> int:
    """Insert rows of a dataset, with the ids they have; returns how many of them were not there yet.

    With ``copied`` the lake has them already, and they are not copied to it again. Columns that are missing are empty;
    ``position`` and ``day`` are the lake's own and left out. Each batch is committed by itself, so that whoever is
    interrupted can begin again.
    """
    with open_target(url) as target:
        routes = RouteNumbers(target)
        inserted = 0
        for batch in batches:
            for first in range(0, batch.num_rows, ROWS_AT_ONCE):
                part = batch.slice(first, ROWS_AT_ONCE)
                rows = event_rows(part, routes) if dataset == "events" else log_rows(part)
                inserted += target.insert(dataset, rows, copied=copied)
    return inserted


def open_target(url: str) -> Target:
    """The database that the URL names; it is connected when it is entered."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme in ("postgresql", "postgres"):
        from eventhub.pipeline.loading.postgres import PostgresTarget

        return PostgresTarget(url)
    if scheme in ("", "sqlite"):
        from eventhub.pipeline.loading.sqlite import SqliteTarget

        return SqliteTarget(url)
    raise SettingsError(
        f"{shown(url)} is no database: give postgresql://user@host/database or the path of an SQLite file."
    )
