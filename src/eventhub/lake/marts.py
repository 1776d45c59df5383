"""The marts of the lake, column by column: small tables that answer the usual questions, without a JVM if need be.

``hourly`` and ``daily`` tell the same by ``dimension`` and ``name``: all (name is empty), queue, type, tag, subscriber
(its id) and worker. Published counts are told by the time of publication, all others by the time that it happened;
who has published nothing, like a worker, has 0 there. Sketches are KLL as Spark's ``kll_…_bigint`` functions read it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["DAILY", "DEAD_TRIAGE", "HOT_KEYS", "HOURLY", "MARTS", "QUEUE_DEPTH", "TIME"]

TIME: Final = pa.timestamp("us", tz="UTC")

_COUNTS: Final = [
    ("published", pa.int64()),  # events
    ("attempts", pa.int64()),  # that ended, however they did
    ("succeeded", pa.int64()),  # attempts
    ("failed", pa.int64()),  # attempts
    ("abandoned", pa.int64()),  # attempts whose worker did not report in time
    ("retries", pa.int64()),  # attempts that were not a delivery's first
    ("completed", pa.int64()),  # deliveries that were settled well
    ("dead", pa.int64()),  # deliveries that were given up, and not retried since
    ("cancelled", pa.int64()),  # deliveries that an operator took away
]
_SHAPES: Final = [
    ("failure_rate", pa.float64()),  # failed and abandoned of those that succeeded, failed or were abandoned; or NULL
    ("wait_p50", pa.int64()),  # milliseconds from published to picked, first attempts
    ("wait_p90", pa.int64()),
    ("wait_p99", pa.int64()),
    ("duration_p50", pa.int64()),  # milliseconds from picked to ended, attempts that succeeded or failed
    ("duration_p90", pa.int64()),
    ("duration_p99", pa.int64()),
    ("latency_p50", pa.int64()),  # milliseconds from published to completed, deliveries
    ("latency_p90", pa.int64()),
    ("latency_p99", pa.int64()),
    ("last_seen", TIME),  # when an attempt was last taken, or reported on by its worker; stale workers are found by it
    ("wait_sketch", pa.binary()),
    ("duration_sketch", pa.binary()),
    ("latency_sketch", pa.binary()),
    ("day", pa.date32()),
]

HOURLY: Final = pa.schema(
    [("hour", TIME), ("dimension", pa.string()), ("name", pa.string()), *_COUNTS, *_SHAPES],
)
DAILY: Final = pa.schema([("dimension", pa.string()), ("name", pa.string()), *_COUNTS, *_SHAPES])
QUEUE_DEPTH: Final = pa.schema(
    [
        # Work that was open at the end of the hour. An hour without a row: as in the last one that has one.
        ("hour", TIME),
        ("queue", pa.string()),
        ("entered", pa.int64()),
        ("left", pa.int64()),
        ("depth", pa.int64()),
        ("day", pa.date32()),
    ]
)
DEAD_TRIAGE: Final = pa.schema(
    [
        # The dead of a day that nobody has retried, by what they died of.
        ("error_fingerprint", pa.string()),
        ("reason", pa.string()),
        ("dead", pa.int64()),
        ("first_at", TIME),
        ("last_at", TIME),
        ("example_error", pa.string()),
        ("event_ids", pa.list_(pa.int64())),  # some of them, the lowest
        ("types", pa.list_(pa.string())),  # some of them, in order
        ("day", pa.date32()),
    ]
)
HOT_KEYS: Final = pa.schema(
    [
        # The ordering keys of a queue with the most deliveries settled in a day, the first hundred of all.
        ("queue", pa.string()),
        ("ordering_key", pa.string()),
        ("deliveries", pa.int64()),
        ("failures", pa.int64()),
        ("dead", pa.int64()),
        ("longest_wait_ms", pa.int64()),
        ("longest_total_ms", pa.int64()),
        ("day", pa.date32()),
    ]
)
MARTS: Final[dict[str, pa.Schema]] = {
    "marts/hourly": HOURLY,
    "marts/daily": DAILY,
    "marts/queue_depth": QUEUE_DEPTH,
    "marts/dead_triage": DEAD_TRIAGE,
    "marts/hot_keys": HOT_KEYS,
}
"""By their paths in the lake."""
