"""What new rows of the log change: stories that begin, go on, or turn out otherwise than they were told before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.pipeline.facts.stories import EVENT_COLUMNS, LOG_COLUMNS, SIGN, stories
from eventhub.pipeline.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventhub.lake.place import Lake

__all__ = ["Change", "Touched", "net", "touched"]

FEW: Final = 200_000
"""So many events are looked for by whoever reads the log; for more of them it is brought together by event first."""
Change = Literal["attempt gone", "delivery gone", "time gone", "counted", "flowing", "dead", "keyed"]
_CHANGES: Final[dict[Change, str]] = {
    "attempt gone": "ends AND sign < 0",
    "delivery gone": "settles AND sign < 0",
    "time gone": "sign < 0 AND (ends OR (settles AND action = 'COMPLETED'))",
    "counted": "ends OR settles OR action = 'PUBLISHED'",
    "flowing": "flow <> 0",
    "dead": "settles AND action = 'DEAD'",
    "keyed": "settles AND ordering_key IS NOT NULL",
}


class Touched:
    """Stories as they are now (sign 1), and as they were told before but are no more (-1); kept until forgotten."""

    def __init__(self, told: DataFrame, whole: Callable[[], DataFrame] | None = None, *beside: DataFrame) -> None:
        self.is_all = whole is None
        self.told = told.persist()
        self._whole = whole
        self._kept = (self.told, *beside)

    def days(self, change: Change) -> set[str]:
        """The days on which there is such a change."""
        return {day for day, found in self._days.items() if found[change]}

    @cached_property
    def _days(self) -> dict[str, dict[Change, bool]]:
        found = [F.max(F.expr(condition)).alias(change) for change, condition in _CHANGES.items()]
        rows = self.told.groupBy(F.to_date("created_at").alias("day")).agg(*found).collect()
        return {row["day"].isoformat(): {change: row[change] for change in _CHANGES} for row in rows}

    def from_the_beginning(self) -> DataFrame:
        """All stories, for whoever cannot go on from where he is."""
        return self.told if self._whole is None else self._whole()

    def forget(self) -> None:
        for one in self._kept:
            one.unpersist()


def touched(spark: SparkSession, lake: Lake, *, since: int, upto: int) -> Touched | None:
    """What the rows from one position to below another change; None when there are no such rows."""
    log, events = lake.dataset("event_log"), lake.dataset("events")
    columns = [*LOG_COLUMNS, "position"]
    below = F.col("position") < upto

    def whole() -> DataFrame:
        rows = frame(spark, log, columns=columns).where(below)
        return stories(rows, frame(spark, events, columns=EVENT_COLUMNS))

    if since == 0:
        return Touched(whole()) if log.exists else None
    new = frame(spark, log, columns=columns, least={"position": since}).where(below & (F.col("position") >= since))
    wanted = new.select("event_id").distinct().persist()
    first, count = wanted.agg(F.min("event_id"), F.count("*")).collect()[0]
    if not count:
        wanted.unpersist()
        return None
    rows = frame(spark, log, columns=columns, least={"event_id": first}).where(below)
    rows = rows.join(F.broadcast(wanted) if count <= FEW else wanted, "event_id", "left_semi")
    # Each event once as it is now, and once as it was before the new rows.
    signs = F.when(F.col("position") < since, F.array(F.lit(1), F.lit(-1))).otherwise(F.array(F.lit(1)))
    told = stories(
        rows.withColumn(SIGN, F.explode(signs)), frame(spark, events, columns=EVENT_COLUMNS, least={"id": first})
    )
    return Touched(net(_parts(told)), whole, wanted)


def _parts(told: DataFrame) -> DataFrame:
    """A row may end an attempt, settle a delivery and change a queue: perhaps only one of these is new."""
    rest = [column for column in told.columns if column not in ("ends", "settles", "flow")]
    parts = """stack(3, ends, ends, false, 0,
                        settles, false, settles, 0,
                        flow <> 0 OR action = 'PUBLISHED', false, false, flow) AS (kept, ends, settles, flow)"""
    return told.select(*rest, F.expr(parts)).where("kept").drop("kept")


def net(signed: DataFrame) -> DataFrame:
    """What is left when equal rows of opposite signs cancel each other."""
    rest = [column for column in signed.columns if column != SIGN]
    return signed.groupBy(*rest).agg(F.sum(SIGN).alias(SIGN)).where(F.col(SIGN) != 0)
