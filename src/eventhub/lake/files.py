"""Parquet files of the lake: written beside the table, and no part of it before a commit names them.

A file's entry has its statistics, which are taken from what was written, so that readers can leave it out.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.lake.datasets import DAY, STATISTICS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

__all__ = ["FileEntry", "keep", "read_day_file", "told_columns", "write_day_files"]

ROWS_PER_GROUP: Final = 131_072
ROWS_PER_FILE: Final = 2_000_000
BYTES_PER_GROUP: Final = 64 << 20
"""Rows of a group wait in memory until there are enough of them, or they are large."""
BYTES_WAITING: Final = 256 << 20
"""And all of them together take no more than this."""
MOST_OPEN: Final = 64
"""Days whose files are open at the same time."""


class FileEntry(msgspec.Struct, frozen=True):
    """A file that was written: what a commit needs to know of it. The path is below the table's."""

    path: str
    size: int
    rows: int
    day: str
    stats: str
    modified_ms: int


def write_day_files(
    batches: Iterable[pa.RecordBatch], filesystem: fs.FileSystem, root: str, *, name: str
) -> Iterator[FileEntry]:
    """Write batches that have a ``day`` each row, into a file for every day; its entry follows when it is complete.

    ``name`` tells the copy and the slice of it that they belong to, for people who look; it need not be unique.
    """
    writers: dict[date, _DayFile] = {}
    try:
        for batch in batches:
            for day, rows in _by_day(batch):
                writer = writers.get(day)
                if writer is None:
                    writer = writers[day] = _DayFile(filesystem, root, day, rows.schema, name)
                writer.write(rows)
                if writer.rows >= ROWS_PER_FILE:
                    yield writers.pop(day).close()
                elif len(writers) > MOST_OPEN:
                    yield writers.pop(next(iter(writers))).close()
            if sum(writer.waiting_bytes for writer in writers.values()) > BYTES_WAITING:
                max(writers.values(), key=lambda writer: writer.waiting_bytes).write_group()
        for day in list(writers):
            yield writers.pop(day).close()
    finally:
        for writer in writers.values():
            writer.abandon()


def read_day_file(filesystem: fs.FileSystem, root: str, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file with these columns: its day is in its name, and a column that is newer than it is empty."""
    import pyarrow as pa
    from pyarrow import parquet

    day = date.fromisoformat(path.partition("/")[0].removeprefix(f"{DAY}="))
    with filesystem.open_input_file(f"{root}/{path}") as file:
        opened = parquet.ParquetFile(file)
        there = [name for name in schema.names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(batch_size=ROWS_PER_GROUP, columns=there):
            rows = batch.num_rows
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in there
                else pa.array([day] * rows, field.type)
                if field.name == DAY
                else pa.nulls(rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def keep(filesystem: fs.FileSystem, files: Iterable[str], folders: Iterable[str]) -> None:
    """See that files, and their names in their folders, outlast a loss of power; object stores do so by themselves."""
    from pyarrow import fs

    if not isinstance(filesystem, fs.LocalFileSystem):
        return
    for path in (*files, *folders):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[date, pa.RecordBatch]]:
    import pyarrow.compute as pc

    days = batch.column(DAY)
    rest = batch.drop_columns([DAY])
    distinct = pc.unique(days)
    if len(distinct) == 1:
        yield distinct[0].as_py(), rest
        return
    for day in distinct:
        yield day.as_py(), rest.filter(pc.equal(days, day))


class _DayFile:
    """One file that is being written."""

    def __init__(self, filesystem: fs.FileSystem, root: str, day: date, schema: pa.Schema, name: str) -> None:
        from pyarrow import fs, parquet

        self._day = day.isoformat()
        self._folder = f"{DAY}={self._day}"
        self._path = f"{self._folder}/{name}-{uuid.uuid4().hex}.parquet"
        self._filesystem, self._whole = filesystem, f"{root}/{self._path}"
        if isinstance(filesystem, fs.LocalFileSystem):  # an object store has no folders, only names
            filesystem.create_dir(f"{root}/{self._folder}", recursive=True)
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self.waiting_bytes = 0
        self._writer = parquet.ParquetWriter(
            self._whole, schema, filesystem=filesystem, compression="zstd", write_statistics=True
        )

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROWS_PER_GROUP or self.waiting_bytes >= BYTES_PER_GROUP:
            self.write_group()

    def write_group(self) -> None:
        """Every call of the writer makes a group of its own: few large ones are smaller and faster to read."""
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=2 * ROWS_PER_GROUP)
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def close(self) -> FileEntry:
        from pyarrow import parquet

        self.write_group()
        self._writer.close()
        keep(self._filesystem, [self._whole], [self._whole.rpartition("/")[0]])
        size = self._filesystem.get_file_info(self._whole).size
        with self._filesystem.open_input_file(self._whole) as file:
            stats = _statistics(parquet.ParquetFile(file).metadata)
        return FileEntry(self._path, size, self.rows, self._day, stats, int(time.time() * 1000))

    def abandon(self) -> None:
        """It stays where it is, unseen, until somebody cleans up."""
        self._writer.close()


def told_columns(schema: pa.Schema) -> list[str]:
    """The columns that statistics tell of. A table must say which: delta-rs takes what it is not told for nothing."""
    import pyarrow.types as kinds

    return [
        field.name
        for field in schema
        if field.name in STATISTICS or kinds.is_int64(field.type) or kinds.is_timestamp(field.type)
    ]


def _statistics(metadata: Any) -> str:
    """In the words of Delta: the number of rows; of numbers, times and a few others the least and greatest."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    missing: dict[str, int] = {}
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        name = column.path
        if name not in STATISTICS and (column.physical_type != "INT64" or "." in name):
            continue
        groups = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
        if any(group is None for group in groups):
            continue
        missing[name] = sum(group.null_count or 0 for group in groups)
        known = [group for group in groups if group.has_min_max]
        if known:
            least[name] = _told(min(group.min for group in known))
            greatest[name] = _told(max(group.max for group in known))
    found = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": missing}
    return msgspec.json.encode(found).decode()


def _told(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value
