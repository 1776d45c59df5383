"""Attempts: one row for each claim that ended, and how. Such a row never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.pipeline.facts.fingerprints import fingerprint
from eventhub.pipeline.facts.schemas import ATTEMPTS
from eventhub.pipeline.facts.stories import milliseconds, stories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["attempts", "attempts_of"]


def attempts(log: DataFrame, events: DataFrame) -> DataFrame:
    """The attempts that the log tells of; those under way are not among them."""
    return attempts_of(stories(log, events)).select(*ATTEMPTS.names)


def attempts_of(told: DataFrame) -> DataFrame:
    """The attempts in stories, with their sign."""
    return told.where("ends").select(
        *["sign", "delivery_id", "fence", "event_id", "type", "queue", "tags", "subscriber", "worker", "picked_at"],
        # A released one is not counted: the log says how many there are without it.
        (F.col("attempt") + F.when(F.col("action") == "RELEASED", 1).otherwise(0)).alias("attempt"),
        F.col("created_at").alias("ended_at"),
        F.col("action").alias("outcome"),
        "status_code",
        F.when(F.col("action") != "DEAD", F.col("error")).alias("error"),  # there it is the reason of death
        F.when(F.col("action") != "DEAD", fingerprint("error")).alias("error_fingerprint"),
        "execution_ms",
        milliseconds("picked_at", "created_at").alias("duration_ms"),
        milliseconds("waits_from", "picked_at").alias("wait_ms"),
        F.to_date("created_at").alias("day"),
    )
