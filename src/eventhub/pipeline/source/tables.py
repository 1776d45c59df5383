"""The tables that can be read, column by column: what Spark calls them, and where each engine has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType

    from eventhub.store.ledger import Dataset

__all__ = ["FILTERABLE", "TABLES", "Column", "Kind", "arrow_schema", "chosen", "spark_schema"]

Kind = Literal["long", "integer", "string", "time"]

_SPARK: Final[dict[Kind, type[DataType]]] = {
    "long": LongType,
    "integer": IntegerType,
    "string": StringType,
    "time": TimestampType,
}
_ARROW: Final[dict[Kind, pa.DataType]] = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "string": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
}


class Column(msgspec.Struct, frozen=True):
    """A column: its kind, and how it is found where that is not its own name. ``r`` is the event's route."""

    name: str
    kind: Kind
    postgres: str = ""
    sqlite: str = ""

    @property
    def of_route(self) -> bool:
        return self.postgres.startswith("r.")


def _same(kind: Kind, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, f"t.{name}", f"t.{name}") for name in names)


_POSITION: Final = Column("position", "long", "t.xid", "t.id")
TABLES: Final[dict[Dataset, tuple[Column, ...]]] = {
    "events": (
        *_same("long", "id"),
        *_same("string", "type"),
        Column("payload", "string", "t.payload::text", "t.payload"),
        *_same("string", "metadata", "tags", "title", "description", "ordering_key", "idempotency_key"),
        Column("queue", "string", "r.queue", "r.queue"),
        Column("route_tags", "string", "r.tags", "r.tags"),
        Column("priority", "integer", "r.priority", "r.priority"),
        *_same("time", "created_at"),
        _POSITION,
    ),
    "event_log": (
        *_same("long", "id", "event_id", "delivery_id"),
        *_same("string", "action", "worker"),
        *_same("integer", "attempt", "fence", "status_code"),
        *_same("string", "error"),
        *_same("integer", "execution_ms"),
        *_same("time", "created_at"),
        *_same("long", "subscriber"),
        _POSITION,
    ),
    "audit": (
        *_same("long", "id"),
        *_same("string", "actor", "actor_kind", "key_id", "address", "action", "target", "details"),
        *_same("time", "created_at"),
        _POSITION,
    ),
}
FILTERABLE: Final = frozenset({"id", "event_id", "type", "action", "created_at", "position"})
"""Columns whose conditions the database checks; none of them is ever NULL."""


def chosen(table: Dataset, names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns of a table that were asked for, in that order; all when nobody asked."""
    known = {column.name: column for column in TABLES[table]}
    if names is None:
        return tuple(known.values())
    unknown = [name for name in names if name not in known]
    if unknown or not names or len(set(names)) < len(names):
        raise SettingsError(
            f"columns is {','.join(names)!r}; give columns of {table}, each once, with commas: {', '.join(known)}."
        )
    return tuple(known[name] for name in names)


def spark_schema(columns: Sequence[Column]) -> StructType:
    return StructType([StructField(column.name, _SPARK[column.kind]()) for column in columns])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, _ARROW[column.kind]) for column in columns])
