"""What the lake keeps of the hub: its datasets, their columns, and how a row's day is named.

``position`` is where a row stands in the hub's own order of commits (see the ledger); ``day`` is the day, in UTC, that
it was written, by which files are kept together. Columns may be added, never changed or taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.store.ledger import Dataset

__all__ = ["COLUMNS", "DAY", "KEYS", "STATISTICS", "schema_of"]

DAY: Final = "day"
COLUMNS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "events": (
        ("id", "int64"),
        ("type", "string"),
        ("payload", "string"),
        ("metadata", "string"),
        ("tags", "string"),
        ("title", "string"),
        ("description", "string"),
        ("ordering_key", "string"),
        ("idempotency_key", "string"),
        ("queue", "string"),
        ("created_at", "timestamp"),
        ("position", "int64"),
        (DAY, "date"),
    ),
    "event_log": (
        ("id", "int64"),
        ("event_id", "int64"),
        ("delivery_id", "int64"),
        ("action", "string"),
        ("worker", "string"),
        ("attempt", "int32"),
        ("fence", "int32"),
        ("status_code", "int32"),
        ("error", "string"),
        ("execution_ms", "int32"),
        ("created_at", "timestamp"),
        ("subscriber", "int64"),
        ("position", "int64"),
        (DAY, "date"),
    ),
    "audit": (
        ("id", "int64"),
        ("actor", "string"),
        ("actor_kind", "string"),
        ("key_id", "string"),
        ("address", "string"),
        ("action", "string"),
        ("target", "string"),
        ("details", "string"),
        ("created_at", "timestamp"),
        ("position", "int64"),
        (DAY, "date"),
    ),
}
"""Names and types, in the order of the files."""
KEYS: Final = "id"
"""What tells the rows of a dataset apart."""
STATISTICS: Final = ("id", "event_id", "type", "action", "created_at", "position")
"""Columns whose least and greatest values a file's entry tells, so that readers can leave files out."""


def schema_of(dataset: Dataset) -> pa.Schema:
    """The dataset's columns as Arrow has them."""
    import pyarrow as pa

    kinds = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
    }
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in COLUMNS[dataset]])
