"""Deliveries: one row for each that is settled, with its whole life. One that is retried when dead is open again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.pipeline.facts.fingerprints import fingerprint
from eventhub.pipeline.facts.schemas import DELIVERIES
from eventhub.pipeline.facts.stories import milliseconds, stories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["deliveries", "deliveries_of"]


def deliveries(log: DataFrame, events: DataFrame) -> DataFrame:
    """The deliveries that are settled by what the log tells."""
    return deliveries_of(stories(log, events)).select(*DELIVERIES.names)


def deliveries_of(told: DataFrame) -> DataFrame:
    """The settled deliveries in stories, with their sign."""
    return told.where("settles").select(
        *["sign", "delivery_id", "event_id", "subscriber", "type", "queue", "tags", "ordering_key", "published_at"],
        "first_picked_at",
        F.col("created_at").alias("settled_at"),
        F.col("action").alias("outcome"),
        F.when(F.col("action") == "DEAD", F.col("error")).alias("reason"),
        *["attempts", "failures", "abandonments", "retries"],
        milliseconds("published_at", "first_picked_at").alias("wait_ms"),
        milliseconds("published_at", "created_at").alias("total_ms"),
        "last_error",
        fingerprint("last_error").alias("error_fingerprint"),
        "worker",
        F.to_date("created_at").alias("day"),
    )
