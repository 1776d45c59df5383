"""How much work was open in each queue at the end of every hour in which it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.lake.marts import QUEUE_DEPTH
from eventhub.pipeline.facts.stories import SIGN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["flows", "queue_depth"]


def flows(told: DataFrame) -> DataFrame:
    """What entered the queues and what left them, by the hour."""
    change = F.col("flow") * F.col(SIGN)
    return (
        told.where("flow <> 0")
        .groupBy(F.date_trunc("hour", "created_at").alias("hour"), "queue")
        .agg(
            F.sum(F.when(F.col("flow") > 0, change).otherwise(0)).alias("entered"),
            F.sum(F.when(F.col("flow") < 0, -change).otherwise(0)).alias("left"),
        )
    )


def queue_depth(parts: DataFrame) -> DataFrame:
    """Flows, from the first hour on and perhaps in several parts, and what was left open by them."""
    whole = parts.groupBy("hour", "queue").agg(F.sum("entered").alias("entered"), F.sum("left").alias("left"))
    until = Window.partitionBy("queue").orderBy("hour").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        whole.where("entered <> 0 OR left <> 0")
        .withColumn("depth", F.sum(F.col("entered") - F.col("left")).over(until))
        .withColumn("day", F.to_date("hour"))
        .select(*QUEUE_DEPTH.names)
    )
