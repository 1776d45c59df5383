r"""Rows on their way between PostgreSQL and Arrow, in the text format of PostgreSQL's copies.

A row is a line, its columns lie between tabs, NULL is ``\N``, and whatever could be mistaken for one of these is
escaped. So a line always ends where it seems to end, and Arrow's own functions can do the work.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from eventhub.errors import StoreError

__all__ = ["SETTINGS", "from_copy", "to_copy"]

SETTINGS: Final = {"timezone": "UTC", "datestyle": "ISO"}
"""Of the session: how its times are written, and how those without a zone are read."""

NULL: Final = r"\N"
_LINES: Final = csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=False)
_UNESCAPED: Final = {
    r"\\": "\0",
    r"\t": "\t",
    r"\n": "\n",
    r"\r": "\r",
    r"\b": "\b",
    r"\f": "\f",
    r"\v": "\v",
    "\0": "\\",
}
"""In this order: doubled backslashes make way first, for a byte that no text of PostgreSQL has."""
_ESCAPED: Final = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


def from_copy(text: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Whole lines."""
    if text.startswith(BOM_UTF8):  # the first value's own: Arrow takes one away
        text = BOM_UTF8 + text
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=schema.names, use_threads=False, block_size=len(text) + 1),
            parse_options=_LINES,
            convert_options=csv.ConvertOptions(column_types=schema, strings_can_be_null=True, null_values=[NULL]),
        )
    except pa.ArrowInvalid as error:
        raise StoreError(
            f"A value in the database cannot be read: {error}. Times must lie in the years 1 to 9999; if this is no "
            "time, please report it with this message."
        ) from None
    (batch,) = table.combine_chunks().to_batches()
    columns = [_unescaped(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _unescaped(texts: pa.Array) -> pa.Array:
    if _has(texts, "\\"):
        for escape, meant in _UNESCAPED.items():
            texts = pc.replace_substring(texts, escape, meant)
    return texts


def to_copy(rows: pa.RecordBatch) -> pa.Buffer:
    """The lines of some rows, but not of none."""
    columns = [_escaped(column.cast(pa.large_string())) for column in map(_without_zone, rows.columns)]
    lines = pc.binary_join_element_wise(*columns, _large("\t"), null_handling="replace", null_replacement=NULL)
    ended = pc.binary_join_element_wise(lines, _large("\n"), _large(""))
    return ended.buffers()[2]  # the texts of an array lie side by side


def _without_zone(column: pa.Array) -> pa.Array:
    """Arrow takes twenty times as long to write times with a zone."""
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _escaped(texts: pa.Array) -> pa.Array:
    for special, escape in _ESCAPED.items():
        if _has(texts, special):
            texts = pc.replace_substring(texts, special, escape)
    return texts


def _has(texts: pa.Array, part: str) -> bool:
    return bool(pc.any(pc.match_substring(texts, part)).as_py())


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())
