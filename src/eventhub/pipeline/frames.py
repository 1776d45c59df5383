"""Tables of the lake as DataFrames: files of the current version in, files without a commit out.

Rows never come to the driver; of what tasks write, it gets the entries that a commit needs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from eventhub import errors
from eventhub.lake.files import FileEntry, read_day_file, write_day_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventhub.lake.tables import LakeTable

__all__ = ["ENTRIES", "as_batch", "entries_of", "frame", "frame_of", "ours", "write"]

ENTRIES: Final = "path string, size long, rows long, day string, stats string, modified_ms long"
"""How the entries of files travel from tasks to the driver."""
_PATTERNS: Final = re.compile(r"[][{}*?]")
_OURS: Final = re.compile(r"^eventhub\.errors\.(\w+): (.*)$", re.MULTILINE)


def frame(
    spark: SparkSession,
    table: LakeTable,
    *,
    days: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    least: Mapping[str, int] | None = None,
) -> DataFrame:
    """The rows of a table; only of these days, and without files that hold nothing from ``least`` on.

    ``least`` is a column and its minimum: it leaves out files by their statistics, never rows of those that stay.
    Without a table, or a file, the frame is empty.
    """
    return frame_of(spark, table, table.file_uris(days=days, least=least), columns=columns)


def frame_of(
    spark: SparkSession, table: LakeTable, files: Sequence[str], *, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows of some files of a table, committed or not."""
    schema = from_arrow_schema(table.schema)
    if files and "://" in table.url:
        return _fetched(spark, table, files, columns or table.schema.names)
    if files:
        read = spark.read.schema(schema).option("basePath", table.filesystem()[1]).parquet(*map(_literal, files))
    else:
        read = spark.createDataFrame([], schema)
    return read if columns is None else read.select(*columns)


def _literal(path: str) -> str:
    """A path that Spark takes as it is, and not for a pattern."""
    return _PATTERNS.sub(r"\\\g<0>", path)


def _fetched(spark: SparkSession, table: LakeTable, files: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Files of an object store, read by Arrow in the tasks: Spark itself would need jars for that."""
    wanted = pa.schema([table.schema.field(name) for name in columns])
    below = [file.removeprefix(f"{table.url}/") for file in files]
    parts = min(len(below), 4 * spark.sparkContext.defaultParallelism)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from read_day_file(*table.filesystem(), path, wanted)

    named = spark.createDataFrame([(path,) for path in below], "path string").repartition(parts)
    return named.mapInArrow(task, from_arrow_schema(wanted))


def write(frame: DataFrame, table: LakeTable, *, name: str) -> list[FileEntry]:
    """Write the rows into files of their days, each task its own; they belong to the table once they are committed.

    The frame has the table's columns, in whatever order.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        fitting = (batch.select(table.schema.names).cast(table.schema) for batch in batches if batch.num_rows)
        for entry in write_day_files(fitting, *table.filesystem(), name=f"{name}-{part}"):
            yield as_batch(entry)

    # Rows of a day come together, in tasks of a sensible size: else each of many tasks writes a file for every day.
    return entries_of(frame.hint("rebalance", "day").mapInArrow(task, ENTRIES))


def as_batch(entry: FileEntry) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([msgspec.structs.asdict(entry)])


def entries_of(frame: DataFrame) -> list[FileEntry]:
    """Run the tasks and collect what they have written. An error of ours that ended one is raised as it was there."""
    try:
        return [FileEntry(**row.asDict()) for row in frame.collect()]
    except PySparkException as error:
        told = ours(error)
        if told is None:
            raise
        raise told from error


def ours(error: PySparkException) -> errors.EventHubError | None:
    """The error of ours that ended a task, as it was there; None when it was another's."""
    told = _OURS.findall(str(error))
    kind = getattr(errors, told[-1][0], None) if told else None
    return None if kind is None else kind(told[-1][1])
