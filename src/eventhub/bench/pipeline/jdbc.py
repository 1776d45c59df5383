"""The other side: Spark reads the same rows by its own JDBC source, and writes the same Parquet files.

Its parts are ranges of time, by which the log is partitioned, so that each reads its own days only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

__all__ = ["Extent", "copy_by_jdbc", "read_by_jdbc"]

FETCH: Final = 10_000
QUERY: Final = (
    "(SELECT id, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at, "
    "subscriber, xid AS position, (created_at AT TIME ZONE 'UTC')::date AS day FROM eventhub.event_log) AS log"
)
"""The log with the columns that the lake has."""


Extent = tuple[datetime, datetime]
"""The first time in the log, and the last."""


def read_by_jdbc(spark: Any, url: str, *, partitions: int, extent: Extent) -> Any:
    """The log of a hub as a frame, in parts by time."""
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
        first, last = extent
        bounds = {"lowerBound": _moment(first), "upperBound": _moment(last + timedelta(seconds=1))}
        options |= {"partitionColumn": "created_at", "numPartitions": partitions, **bounds}
    return spark.read.format("jdbc").options(**options).load()


def _moment(at: datetime) -> str:
    """In the time zone of the session, which is UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def copy_by_jdbc(spark: Any, url: str, to: Path, *, partitions: int, extent: Extent) -> None:
    """Copy the log of a hub."""
    rows = read_by_jdbc(spark, url, partitions=partitions, extent=extent)
    rows.write.partitionBy("day").option("compression", "zstd").parquet(str(to))
