"""Small batches of rows brought together, so that each step has enough of them and never too many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["gathered"]


def gathered(
    batches: Iterable[pa.RecordBatch], *, enough_rows: int | None = None, enough_bytes: int | None = None
) -> Iterator[pa.Table]:
    """The rows in tables, each given out as soon as it has so many rows or bytes; none is empty."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if (enough_rows is not None and rows >= enough_rows) or (enough_bytes is not None and size >= enough_bytes):
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
