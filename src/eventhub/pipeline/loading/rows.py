"""From the lake's columns to those of the hub's tables: each where it belongs, and routes as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventhub.core.matching import parse_tags
from eventhub.errors import SettingsError
from eventhub.lake.datasets import DAY, schema_of

if TYPE_CHECKING:
    from eventhub.pipeline.loading.target import RouteName, Target
    from eventhub.store.ledger import Dataset

__all__ = ["EVENTS", "LOG", "RouteNumbers", "event_rows", "highest", "log_rows", "moved_on"]


def _fields(dataset: Dataset) -> list[pa.Field]:
    return [field for field in schema_of(dataset) if field.name not in ("position", DAY, "queue")]


EVENTS: Final = pa.schema([*_fields("events"), pa.field("route", pa.int32())])
"""The columns of the table of events."""
LOG: Final = pa.schema(_fields("event_log"))
"""The columns of the log."""


class RouteNumbers:
    """The routes of one target by name, asked for once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[RouteName, int] = {}

    def of(self, names: list[RouteName]) -> list[int]:
        new = list(dict.fromkeys(name for name in names if name not in self._known))
        if new:
            self._known.update(zip(new, self._target.routes(new), strict=True))
        return [self._known[name] for name in names]


def event_rows(batch: pa.RecordBatch, routes: RouteNumbers) -> pa.RecordBatch:
    """Events as the table has them: queue, tags and type lead to a route."""
    parts = [_encoded(_column(batch, pa.field(name, pa.string()))) for name in ("queue", "tags", "type")]
    sizes = [max(len(part.dictionary), 1) for part in parts]
    codes = np.ravel_multi_index([_codes(part) for part in parts], sizes)
    distinct, places = np.unique(codes, return_inverse=True)
    queues, tags, types = (part.dictionary.to_pylist() for part in parts)
    named = [
        (queues[queue] or "default", _of_route(tags[tag]), types[kind] or "")
        for queue, tag, kind in zip(*np.unravel_index(distinct, sizes), strict=True)
    ]
    numbers = np.array(routes.of(named), dtype=np.int32)[places]
    columns = [pa.array(numbers) if field.name == "route" else _column(batch, field) for field in EVENTS]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def log_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Entries of the log as the table has them."""
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in LOG], schema=LOG)


def highest(rows: pa.RecordBatch, name: str) -> int:
    """The highest number in a column; 0 when there is none."""
    return int(pc.max(rows.column(name)).as_py() or 0)


def moved_on(rows: pa.RecordBatch, first: int, *, first_entry: int | None = None) -> pa.RecordBatch:
    """Rows whose ids count from 0, under ids from ``first`` on; entries of the log from ``first_entry`` on."""
    firsts = {"id": first if first_entry is None else first_entry, "event_id": first, "delivery_id": first}
    columns = [
        pc.add(column, firsts[name]) if name in firsts else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    place = batch.schema.get_field_index(field.name)
    if place < 0:
        if field.name in ("id", "event_id", "created_at"):
            raise SettingsError(f"The rows have no column {field.name}; give those of the lake.")
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(place)
    return column if column.type == field.type else column.cast(field.type)


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return pc.dictionary_encode(plain, null_encoding="encode")


def _codes(column: pa.DictionaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(column.indices, dtype=np.int64)


def _of_route(tags: str | None) -> str:
    return ",".join(parse_tags(tags, most=None))
