"""Whether the lake has rows exactly as the hub has them: the same number of them, and the same checksum.

Both sides are put into the same form first – the lake's columns, in the order of ids – so that the checksum depends on
nothing but what the rows say. A row's ``position`` is left out: one that was restored stands elsewhere than before.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.lake.datasets import DAY, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.lake.reading import TableReader
    from eventhub.store.ledger import Dataset

__all__ = ["Compared", "checksum", "compare"]

NAMED: Final = 5
"""Rows that differ are named, up to so many of them."""


class Compared(msgspec.Struct, frozen=True):
    """The outcome: rows of the hub and their copies, and ids of rows whose copy is missing, doubled or different."""

    rows: int
    copies: int
    checksum: str
    same: bool
    differing: tuple[int, ...] = ()


def compare(dataset: Dataset, rows: pa.Table, lake: TableReader, day: str) -> Compared:
    """Read the copies of some rows of a day again, and compare."""
    import pyarrow.compute as pc

    ours = _ordered(dataset, rows)
    if not ours.num_rows:
        return Compared(0, 0, checksum(ours), same=True)
    ids = ours["id"]
    bounds = pc.min_max(ids)
    found = lake.rows(
        between={"id": (bounds["min"].as_py(), bounds["max"].as_py())}, days=[day], ids=ids.combine_chunks()
    )
    theirs = _ordered(dataset, found)
    sums = checksum(ours), checksum(theirs)
    same = ours.num_rows == theirs.num_rows and sums[0] == sums[1]
    return Compared(
        ours.num_rows, theirs.num_rows, sums[0], same=same, differing=() if same else _differing(ours, theirs)
    )


def checksum(table: pa.Table) -> str:
    """Of all values, column by column: which are missing, how long texts are, and what they say."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    digest = blake2b(digest_size=16)
    for column in table.combine_chunks().columns:
        digest.update(np.packbits(pc.is_null(column).to_numpy()).tobytes())
        if pa.types.is_string(column.type):
            texts = pc.fill_null(column, "")
            digest.update(pc.binary_length(texts).to_numpy().tobytes())
            for chunk in texts.chunks:
                first, last = chunk.offset, chunk.offset + len(chunk)
                offsets = np.frombuffer(chunk.buffers()[1], dtype=np.int32)
                if last > first and chunk.buffers()[2] is not None:
                    digest.update(memoryview(chunk.buffers()[2])[offsets[first] : offsets[last]])
        else:
            whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            digest.update(pc.fill_null(whole, 0).to_numpy().tobytes())
    return digest.hexdigest()


def _ordered(dataset: Dataset, rows: pa.Table) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([field for field in schema_of(dataset) if field.name not in ("position", DAY)])
    return rows.select(schema.names).cast(schema).sort_by("id")


def _differing(ours: pa.Table, theirs: pa.Table) -> tuple[int, ...]:
    """The first ids that are not the same on both sides; slow, as it is not needed while all is well."""
    copies: dict[int, list[dict[str, object]]] = {}
    for row in theirs.to_pylist():
        copies.setdefault(row["id"], []).append(row)
    return tuple([row["id"] for row in ours.to_pylist() if copies.get(row["id"]) != [row]][:NAMED])
