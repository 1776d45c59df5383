"""What happened in an hour or a day, counted by queue, type, tag, subscriber and worker, with how long things took.

Counts add up and sketches merge, so that an hour that gets more rows needs only those, and hours become days. What is
taken back (a dead letter that was retried) comes with a negative sign; sketches forget nothing, so that whoever takes
back a time must count from the beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.lake.marts import DAILY, HOURLY
from eventhub.pipeline.facts.stories import SIGN, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["COUNTS", "TIMES", "daily", "hourly", "measured", "merged"]

COUNTS: Final = (
    "published", "attempts", "succeeded", "failed", "abandoned", "retries", "completed", "dead", "cancelled",
)  # fmt: skip
TIMES: Final = ("wait", "duration", "latency")
SIZE: Final = 400
"""Of a sketch: percentiles are right to about 0.7 in a hundred, with some kilobytes for whoever has many values."""
PERCENTILES: Final = (50, 90, 99)
_GROUP: Final = ("hour", "day", "dimension", "name")


def hourly(told: DataFrame) -> DataFrame:
    """Stories counted by the hour, in all dimensions at once; without rates and percentiles, which do not add up."""
    rows = _moments(told).select("*", F.explode(_dimensions()).alias("of")).select("*", "of.dimension", "of.name")
    times = [F.kll_sketch_agg_bigint(time, F.lit(SIZE)).alias(f"{time}_sketch") for time in TIMES]
    counts = [F.sum(F.col(count) * F.col(SIGN)).alias(count) for count in COUNTS]
    return rows.where("name IS NOT NULL").groupBy(*_GROUP).agg(*counts, F.max("last_seen").alias("last_seen"), *times)


def merged(parts: DataFrame) -> DataFrame:
    """Several counts of the same hours become one; an hour in which nothing is left is no row."""
    return _added_up(parts, *_GROUP)


def daily(hours: DataFrame) -> DataFrame:
    """Hours become days."""
    return measured(_added_up(hours, "day", "dimension", "name")).select(*DAILY.names)


def measured(counted: DataFrame) -> DataFrame:
    """Rates and percentiles of what was counted."""
    ended = F.col("succeeded") + F.col("failed") + F.col("abandoned")
    rate = F.when(ended > 0, (F.col("failed") + F.col("abandoned")) / ended)
    shares = F.array(*[F.lit(percent / 100) for percent in PERCENTILES])
    for time in TIMES:
        sketch = F.col(f"{time}_sketch")
        counted = counted.withColumn(f"{time}_sketch", F.when(F.kll_sketch_get_n_bigint(sketch) > 0, sketch))
        counted = counted.withColumn(time, F.kll_sketch_get_quantile_bigint(f"{time}_sketch", shares))
        for place, percent in enumerate(PERCENTILES):
            counted = counted.withColumn(f"{time}_p{percent}", F.col(time)[place])
    names = HOURLY.names if "hour" in counted.columns else DAILY.names
    return counted.withColumn("failure_rate", rate).select(*names)


def _added_up(parts: DataFrame, *group: str) -> DataFrame:
    counts = [F.sum(count).alias(count) for count in COUNTS]
    times = [F.kll_merge_agg_bigint(f"{time}_sketch", F.lit(SIZE)).alias(f"{time}_sketch") for time in TIMES]
    added = parts.groupBy(*group).agg(*counts, F.max("last_seen").alias("last_seen"), *times)
    return added.where(F.greatest(*[F.abs(count) for count in COUNTS]) > 0)


def _moments(told: DataFrame) -> DataFrame:
    """Every row of a story as what it counts for."""

    def one(condition: Column) -> Column:
        return F.when(condition, 1).otherwise(0)

    action, ends, settles = F.col("action"), F.col("ends"), F.col("settles")
    counted = F.col(SIGN) > 0
    reported = action.isin("COMPLETED", "FAILED", "RELEASED")
    return told.where(ends | settles | (action == "PUBLISHED")).select(
        *[SIGN, "queue", "type", "tags", "worker"],
        F.col("subscriber").cast("string").alias("subscriber"),
        F.date_trunc("hour", "created_at").alias("hour"),
        F.to_date("created_at").alias("day"),
        one(action == "PUBLISHED").alias("published"),
        one(ends).alias("attempts"),
        *[
            one(ends & (action == outcome)).alias(name)
            for name, outcome in (("succeeded", "COMPLETED"), ("failed", "FAILED"), ("abandoned", "ABANDONED"))
        ],
        one(ends & (F.col("fence") > 1)).alias("retries"),
        *[one(settles & (action == name.upper())).alias(name) for name in ("completed", "dead", "cancelled")],
        F.when(counted & ends & (F.col("fence") == 1), milliseconds("waits_from", "picked_at")).alias("wait"),
        F.when(counted & ends & action.isin("COMPLETED", "FAILED"), milliseconds("picked_at", "created_at")).alias(
            "duration"
        ),
        F.when(counted & settles & (action == "COMPLETED"), milliseconds("published_at", "created_at")).alias(
            "latency"
        ),
        F.when(counted & ends, F.when(reported, F.col("created_at")).otherwise(F.col("picked_at"))).alias("last_seen"),
    )


def _dimensions() -> Column:
    """Whom a moment counts for: all, and everybody who is named in it."""

    def named(dimension: str, name: Column) -> Column:
        return F.struct(F.lit(dimension).alias("dimension"), name.alias("name"))

    single = [named(name, F.col(name)) for name in ("queue", "type", "subscriber", "worker")]
    tags = F.array_distinct(F.split(F.trim("tags"), r"\s*,\s*"))
    tagged = F.transform(tags, lambda tag: named("tag", F.when(tag != "", tag)))
    always = F.array(named("all", F.lit("")), *single)
    return F.when(F.col("tags").isNull(), always).otherwise(F.concat(always, tagged))
