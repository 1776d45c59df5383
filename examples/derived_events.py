"""A streaming job of one's own: what was sold each minute, published back into the hub as events.

    order.paid, order.paid, … ──▶ minutes, closed when no late event can come any more ──▶ sales.minute

    python examples/derived_events.py --db app.db --checkpoint sales-checkpoint

Whoever works on the queue ``sales``, or subscribes to ``sales.*``, gets one event for each minute, each once: the
minute is its idempotency key, so that not even a lost checkpoint publishes it again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from eventhub.pipeline import register, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAYLOAD = "amount DOUBLE, currency STRING"


def sales(orders: DataFrame, *, window: str = "1 minute", late: str = "1 minute") -> DataFrame:
    """Orders and their sum, for each window and currency; events may come so ``late``."""
    paid = orders.select("created_at", fn.from_json("payload", PAYLOAD).alias("order")).select("created_at", "order.*")
    return (
        paid.withWatermark("created_at", late)
        .groupBy(fn.window("created_at", window).alias("time"), "currency")
        .agg(fn.count("*").alias("orders"), fn.round(fn.sum("amount"), 2).alias("total"))
        .select("time.start", "time.end", "currency", "orders", "total")
    )


def as_events(found: DataFrame) -> DataFrame:
    """Rows as the sink takes them: a type, a payload, and a key that says when two are the same."""
    return found.select(
        fn.lit("sales.minute").alias("type"),
        fn.to_json(fn.struct("*")).alias("payload"),
        fn.concat_ws("/", fn.lit("sales"), fn.date_format("start", "yyyy-MM-dd'T'HH:mm:ss'Z'"), "currency").alias(
            "key"
        ),
    )


def start(spark: SparkSession, db: str, checkpoint: str, *, once: bool = False) -> StreamingQuery:
    """Begin where the checkpoint ends; with ``once`` only what is there now, else for ever."""
    orders = (
        spark.readStream.format("eventhub")
        .options(url=db, columns="type,payload,created_at", types="order.paid", maxRowsPerBatch=100_000)
        .load()
    )
    writing = (
        as_events(sales(orders))
        .writeStream.format("eventhub")
        .options(url=db, queue="sales", idempotency="key", broadcast=True)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
    )
    return (writing.trigger(availableNow=True) if once else writing.trigger(processingTime="5 seconds")).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, help="postgresql://… or the path of an SQLite file")
    parser.add_argument("--checkpoint", required=True, help="a directory that outlives the job")
    parser.add_argument("--once", action="store_true", help="only what is there now")
    given = parser.parse_args()
    spark = session(app="sales")
    register(spark)
    start(spark, given.db, given.checkpoint, once=given.once).awaitTermination()


if __name__ == "__main__":
    main()
