"""The other side: Spark reads the same rows by its own JDBC source, and writes the same Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

__all__ = ["copy_by_jdbc", "read_by_jdbc"]

FETCH: Final = 10_000
QUERY: Final = (
    "(SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at, "
    "subscriber, xid AS position, (created_at AT TIME ZONE 'UTC')::date AS day FROM eventhub.event_log) AS log"
)
"""The log with the columns that the lake has."""


def read_by_jdbc(spark: Any, url: str, *, partitions: int, last_id: int) -> Any:
    """The log of a hub as a frame, in parts by id."""
    parts = urlsplit(url)
    options: dict[str, Any] = {
        "driver": "org.postgresql.Driver",
        "url": f"jdbc:postgresql://{parts.hostname}:{parts.port or 5432}{parts.path}",
        "user": unquote(parts.username or "postgres"),
        "password": unquote(parts.password or ""),
        "dbtable": QUERY,
        "fetchsize": FETCH,
    }
    if partitions > 1:
        bounds = {"lowerBound": 1, "upperBound": last_id, "numPartitions": partitions}
        options |= {"partitionColumn": "id", **bounds}
    return spark.read.format("jdbc").options(**options).load()


def copy_by_jdbc(spark: Any, url: str, to: Path, *, partitions: int, last_id: int) -> None:
    """Copy the log of a hub."""
    rows = read_by_jdbc(spark, url, partitions=partitions, last_id=last_id)
    rows.write.partitionBy("day").option("compression", "zstd").parquet(str(to))
