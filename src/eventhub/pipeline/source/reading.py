"""Reading: a batch sees what is committed when it is planned; a stream goes on from where it stopped.

    offset = {"origin": …, "position": n, "parts": […]}     all rows below n were read, none at or above it

A position below the horizon stands for the same rows for ever: offsets survive restarts, and a micro-batch that is
repeated reads the same. How it is shared out among tasks is in its offset, too, unless one task reads all of it: a
table that has grown since, or a machine with more cores, would share it out otherwise, and keys that the sink derives
would no longer be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from eventhub.errors import SchemaMismatch
from eventhub.pipeline.source.conditions import asked, pushed
from eventhub.pipeline.source.database import Blocks, Slice, Visible, open_database
from eventhub.pipeline.source.options import ReadOptions
from eventhub.pipeline.source.tables import Column
from eventhub.store.opening import shown

__all__ = ["BatchReader", "StreamReader"]

Offset = dict[str, Any]


class Part(InputPartition):
    """What one task reads; nothing, where all of it is gone."""

    def __init__(self, part: Slice | None) -> None:
        super().__init__(part)


class BatchReader(DataSourceReader):
    """One look at the table; every task sees the same."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._conditions = asked(options)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Only where it was allowed: Spark reads all that comes from one ``load`` by what was pushed last.

        Two conditions on one ``load``, or one beside none, would give wrong rows (seen in Spark 4.3).
        """
        if not self._options.pushdown:
            return filters
        conditions, left = pushed(self._options.table, filters)
        self._conditions += tuple(conditions)
        return left

    def partitions(self) -> list[InputPartition]:
        database = open_database(self._options.url)
        table = self._options.table
        whole = Slice(table, database.current(table), self._conditions)
        return [Part(part) for part in database.slices(whole, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return open_database(self._options.url).read(partition.value, self._columns)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Everything that comes, once, in the order of commits from one micro-batch to the next."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._database = open_database(options.url)
        self._target: int | None = None
        self._origin = ""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        origin = self._checked_origin()
        at = 0 if self._options.start == "earliest" else self._database.horizon(self._options.table)
        return {"origin": origin, "position": at}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable() if self._options.most_rows is None else ReadMaxRows(self._options.most_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._database.horizon(self._options.table)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        first = self._position(start)
        last = self._database.horizon(self._options.table) if self._target is None else self._target
        if first >= last:
            return start
        if isinstance(limit, ReadMaxRows):
            last = self._database.after(self._options.table, first, last, limit.max_rows)
        parts = self._database.slices(self._whole(first, last), self._options.partitions)
        end: Offset = {"origin": start["origin"], "position": last}
        return end if len(parts) == 1 else {**end, "parts": [_kept(part) for part in parts]}

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return {"origin": self._checked_origin(), "position": self._database.horizon(self._options.table)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = self._position(start), self._position(end)
        if first >= last:
            return []
        whole = self._whole(first, last)
        parts = [_found(part, whole) for part in end.get("parts", ())]
        return [Part(part) for part in self._database.remaining(parts or [whole])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        return open_database(self._options.url).read(partition.value, self._columns)

    def _whole(self, first: int, last: int) -> Slice:
        return Slice(self._options.table, Visible(first, last), asked(self._options))

    def _checked_origin(self) -> str:
        if not self._origin:
            self._origin = self._database.origin()
        return self._origin

    def _position(self, offset: Offset) -> int:
        """The position, if it means anything in this database."""
        if offset["origin"] != self._checked_origin():
            raise SchemaMismatch(
                f"The checkpoint of this query belongs to {offset['origin']}, and {shown(self._options.url)} is "
                f"{self._checked_origin()}: it is another database, or was restored elsewhere. "
                "Give the url that the query was started with, or start it with a new checkpoint."
            )
        return int(offset["position"])


def _kept(part: Slice) -> list[Any]:
    """A part as its offset has it; conditions are the query's own."""
    return [part.visible.first, part.visible.last, [list(msgspec.structs.astuple(one)) for one in part.blocks]]


def _found(kept: list[Any], whole: Slice) -> Slice:
    first, last, blocks = kept
    return Slice(whole.table, Visible(first, last), whole.conditions, tuple(Blocks(*one) for one in blocks))
