"""What stands out in a day: what the dead died of, and the busiest ordering keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.lake.marts import DEAD_TRIAGE, HOT_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["dead_triage", "hot_keys"]

EXAMPLES: Final = 10
HOTTEST: Final = 100


def dead_triage(deliveries: DataFrame) -> DataFrame:
    """The dead of each day by reason and by what their last errors have in common; of each group some examples."""
    alike = ("day", "error_fingerprint", "reason")
    place = F.dense_rank().over(Window.partitionBy(*alike).orderBy("event_id"))
    return (
        deliveries.where("outcome = 'DEAD'")
        .withColumn("example", F.when(place <= EXAMPLES, F.col("event_id")))  # a group may have millions
        .groupBy(*alike)
        .agg(
            F.count("*").alias("dead"),
            F.min("settled_at").alias("first_at"),
            F.max("settled_at").alias("last_at"),
            F.min("last_error").alias("example_error"),
            F.array_sort(F.collect_set("example")).alias("event_ids"),
            F.slice(F.array_sort(F.collect_set("type")), 1, EXAMPLES).alias("types"),
        )
        .select(*DEAD_TRIAGE.names)
    )


def hot_keys(deliveries: DataFrame) -> DataFrame:
    """The ordering keys with the most deliveries of each day; of equals, those that failed more."""
    place = Window.partitionBy("day").orderBy(F.desc("deliveries"), F.desc("failures"), "queue", "ordering_key")
    return (
        deliveries.where("ordering_key IS NOT NULL")
        .groupBy("day", "queue", "ordering_key")
        .agg(
            F.count("*").alias("deliveries"),
            F.sum("failures").alias("failures"),
            F.count(F.when(F.col("outcome") == "DEAD", 1)).alias("dead"),
            F.max("wait_ms").alias("longest_wait_ms"),
            F.max("total_ms").alias("longest_total_ms"),
        )
        .withColumn("place", F.row_number().over(place))
        .where(F.col("place") <= HOTTEST)
        .select(*HOT_KEYS.names)
    )
