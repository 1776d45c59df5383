"""The facts of the lake, column by column: one row for each attempt that ended, one for each delivery that is settled.

Times are in UTC, ``…_ms`` are whole milliseconds, and ``day`` is the day that the attempt ended or the delivery was
settled. What is of the event (type, queue, tags) is NULL when the event was purged before it could be copied.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from eventhub.lake.marts import TIME

__all__ = ["ATTEMPTS", "ATTEMPTS_PATH", "DELIVERIES", "DELIVERIES_PATH"]

ATTEMPTS_PATH: Final = "facts/attempts"
DELIVERIES_PATH: Final = "facts/deliveries"

ATTEMPTS: Final = pa.schema(
    [
        ("delivery_id", pa.int64()),
        ("fence", pa.int32()),  # with the delivery it tells attempts apart; 1 is the first
        ("attempt", pa.int32()),  # as it is counted: released ones are not, a retried dead letter starts anew
        ("event_id", pa.int64()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("tags", pa.string()),  # as they were sent, with commas
        ("subscriber", pa.int64()),  # NULL: work for a worker
        ("worker", pa.string()),
        ("picked_at", TIME),
        ("ended_at", TIME),
        (
            "outcome",
            pa.string(),
        ),  # COMPLETED FAILED ABANDONED RELEASED RESET CANCELLED, or DEAD: given up without an error
        ("status_code", pa.int32()),
        ("error", pa.string()),
        ("error_fingerprint", pa.string()),  # the same for errors that differ only in numbers and names
        ("execution_ms", pa.int32()),  # as the worker said
        ("duration_ms", pa.int64()),  # from picked to ended
        (
            "wait_ms",
            pa.int64(),
        ),  # from published, the end of the attempt before, or the retry of the dead letter to picked
        ("day", pa.date32()),
    ]
)
DELIVERIES: Final = pa.schema(
    [
        ("delivery_id", pa.int64()),
        ("event_id", pa.int64()),
        ("subscriber", pa.int64()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("tags", pa.string()),
        ("ordering_key", pa.string()),
        ("published_at", TIME),
        ("first_picked_at", TIME),  # NULL: settled without an attempt
        ("settled_at", TIME),
        ("outcome", pa.string()),  # COMPLETED DEAD CANCELLED
        (
            "reason",
            pa.string(),
        ),  # of a dead one: retries_exhausted worker_lost rejected finalized manual gone skipped …
        ("attempts", pa.int32()),  # all of its life, also before it was retried from the dead letter queue
        ("failures", pa.int32()),
        ("abandonments", pa.int32()),
        ("retries", pa.int32()),  # by an operator
        ("wait_ms", pa.int64()),  # from published to first picked
        ("total_ms", pa.int64()),  # from published to settled
        ("last_error", pa.string()),
        ("error_fingerprint", pa.string()),  # of the last error
        ("worker", pa.string()),  # who had it last
        ("day", pa.date32()),
    ]
)
