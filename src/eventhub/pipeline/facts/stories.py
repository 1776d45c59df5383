"""The log read as stories: what each row of it meant for its delivery, in one pass that both facts are taken from.

Rows of one delivery are ordered by their id, which is the order in which they were written, whatever the clock said:

    PUBLISHED ─▶ PICKED ─▶ FAILED ─▶ PICKED ─▶ FAILED, DEAD ─▶ RETRIED ─▶ PICKED ─▶ COMPLETED
                 └─ an attempt ─┘    └─ an attempt ─┘          └─ settled once more, by this one ┘

- An **attempt** ends with the first row behind its PICKED that can end one. What is written later under the same fence
  (by an operator, or because a delivery that nobody held was finalized) is about the delivery, not about the attempt.
- A delivery is **settled** when nothing that opens it again stands behind the row that settled it.
- Where several readings of the log are told apart by a column ``sign``, each is a story of its own (see ``deriving``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.core.events import Action

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["EVENT_COLUMNS", "LOG_COLUMNS", "SIGN", "milliseconds", "stories"]

SIGN: Final = "sign"
EVENT_COLUMNS: Final = ("id", "type", "queue", "tags", "ordering_key", "created_at")
LOG_COLUMNS: Final = (
    "id", "event_id", "delivery_id", "action", "worker", "attempt", "fence", "status_code", "error", "execution_ms",
    "created_at", "subscriber",
)  # fmt: skip
"""What is read of the two datasets."""

ENDINGS: Final = (
    Action.COMPLETED,
    Action.FAILED,
    Action.ABANDONED,
    Action.RELEASED,
    Action.RESET,
    Action.DEAD,
    Action.CANCELLED,
)
SETTLING: Final = (Action.COMPLETED, Action.DEAD, Action.CANCELLED)
OPENING: Final = (Action.PUBLISHED, Action.PICKED, Action.RETRIED)
IGNORED: Final = (Action.STARTED, Action.SKIPPED)
"""They say something about a delivery that other rows say already."""


def stories(log: DataFrame, events: DataFrame) -> DataFrame:
    """The rows of the log that a fact or a mart is made of, each with what it ended, and with its event.

    ``ends`` is true for the row that ends an attempt, ``settles`` for the one that settles a delivery for good, and
    ``flow`` is 1 and -1 where work enters and leaves its queue.
    """
    if SIGN not in log.columns:
        log = log.withColumn(SIGN, F.lit(1))
    rows = (
        log.select(*LOG_COLUMNS, SIGN)
        .where(~_is(*IGNORED))
        .withColumn("delivery_id", F.coalesce("delivery_id", "event_id"))
        .repartition("event_id")  # all stories of an event in one place, and what is of the event beside them
    )
    told = _with_flow(_with_past(rows)).where(
        F.col("ends") | F.col("settles") | (F.col("flow") != 0) | _is(Action.PUBLISHED)
    )
    about = events.select(*EVENT_COLUMNS).withColumnsRenamed({"id": "event_id", "created_at": "published_at"})
    # The stories are in the order of their events already; all events at once need not fit into memory.
    return told.join(about.hint("merge"), "event_id", "left").withColumn(
        "waits_from", F.coalesce("waits_from", "published_at")
    )


def _with_past(rows: DataFrame) -> DataFrame:
    """What stood before each row, and whether it is the last that counts."""
    order = Window.partitionBy("event_id", SIGN, "delivery_id").orderBy("id")
    before = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

    def count(*actions: Action) -> Column:
        return F.count(F.when(_is(*actions), 1)).over(before).cast("int")

    picked = F.lag("action").over(order).eqNullSafe(str(Action.PICKED))
    same = F.lag("fence").over(order).eqNullSafe(F.col("fence"))
    # Nobody was to be told of an event: it is complete, but there was no delivery of it. Such a row has no fence.
    settling = _is(*SETTLING) & ~(_is(Action.COMPLETED) & F.col("fence").isNull())
    return rows.select(
        *[column for column in rows.columns if column not in ("worker", "subscriber")],
        (_is(*ENDINGS) & picked & same).alias("ends"),
        (settling & (F.max(F.when(_is(*SETTLING, *OPENING), F.col("id"))).over(whole) == F.col("id"))).alias("settles"),
        F.lag("created_at").over(order).alias("picked_at"),
        F.lag("created_at", 2).over(order).alias("waits_from"),
        F.min(F.when(_is(Action.PICKED), F.col("created_at"))).over(before).alias("first_picked_at"),
        F.last(F.when(_is(Action.PICKED), F.col("worker")), ignorenulls=True).over(before).alias("worker"),
        F.last("subscriber", ignorenulls=True).over(before).alias("subscriber"),
        F.last(F.when(_is(Action.FAILED, Action.ABANDONED), F.col("error")), ignorenulls=True)
        .over(before)
        .alias("last_error"),
        (count(Action.PICKED) - count(Action.RELEASED)).alias("attempts"),
        count(Action.FAILED).alias("failures"),
        count(Action.ABANDONED).alias("abandonments"),
        count(Action.RETRIED).alias("retries"),
    )


def _with_flow(rows: DataFrame) -> DataFrame:
    """How the work in the queues becomes more and less.

    An event that is only broadcast never was in its queue. The log does not say so when it is published; but once
    there is a message of it, or nobody to tell, and nothing about work on it, it is known.
    """
    event = Window.partitionBy("event_id", SIGN)
    own = F.col("delivery_id") == F.col("event_id")
    nobody = _is(Action.COMPLETED) & F.col("fence").isNull()
    worked_on = F.max(own & ~_is(Action.PUBLISHED) & ~nobody).over(event)
    broadcast = F.max(~own | nobody).over(event)
    change = F.when(_is(Action.PUBLISHED, Action.RETRIED), 1).when(_is(Action.COMPLETED, Action.DEAD), -1).otherwise(0)
    return rows.withColumn("flow", F.when(own & (worked_on | ~broadcast), change).otherwise(0))


def milliseconds(first: str, last: str) -> Column:
    """The time between two; a clock that was set back makes it no less than nothing."""
    between = F.unix_micros(last) - F.unix_micros(first)
    return F.when(between < 0, F.lit(0).cast("long")).otherwise(F.floor(between / 1000))


def _is(*actions: Action) -> Column:
    return F.col("action").isin(*[str(action) for action in actions])
