"""The data source ``eventhub`` for Spark: events and their log as DataFrames and streams, and rows as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from eventhub.errors import SettingsError
from eventhub.pipeline.source.options import WriteOptions, read_options, write_options
from eventhub.pipeline.source.reading import BatchReader, StreamReader
from eventhub.pipeline.source.sink import BatchWriter, StreamWriter, check_columns
from eventhub.pipeline.source.tables import Column, chosen, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EventHubSource", "register"]


def register(spark: SparkSession) -> None:
    """Make ``format("eventhub")`` known to a Spark session."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(EventHubSource)


class EventHubSource(DataSource):
    """Options: ``url``, and for reading ``table``, ``columns``, ``partitions``, ``maxRowsPerBatch``, ``start``,
    ``types``, ``actions``, ``firstId``, ``lastId``, ``since``, ``until`` and ``pushdown``; for writing
    ``queue``, ``idempotency``, ``run``, ``maxAttempts``, ``broadcast``, ``work`` and ``batch``.
    """

    @classmethod
    def name(cls) -> str:
        return "eventhub"

    def schema(self) -> StructType:
        options = read_options(self.options)
        return spark_schema(chosen(options.table, options.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options), self._columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StreamReader(read_options(self.options), self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        return BatchWriter(self._write_options(schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        return StreamWriter(self._write_options(schema, overwrite=overwrite))

    def _columns(self, schema: StructType) -> tuple[Column, ...]:
        """The columns; a schema that the user gave must be one that can be read."""
        options = read_options(self.options)
        columns = chosen(options.table, options.columns)
        if spark_schema(columns) != schema:
            raise SettingsError(
                f"The rows of {options.table} have the schema {spark_schema(columns).simpleString()}; "
                "give no schema, and choose columns with the option columns."
            )
        return columns

    def _write_options(self, schema: StructType, *, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise SettingsError("Events are facts and cannot be overwritten: use mode('append').")
        options = write_options(self.options)
        check_columns(schema, options)
        return options
