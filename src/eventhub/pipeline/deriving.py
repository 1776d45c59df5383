"""Facts and marts kept up with the log: only what new rows touch is read and written, and the result is as if all were.

    new rows of the log ─▶ their events ─▶ stories with these rows (sign 1) and without them (-1): what is in both is
    as it was ─▶ facts: rows are added, days rewritten where one must go ─▶ marts: what changed is added to the hours

Every table says in its own commits up to which position of the log it goes, so that a run that was ended between two of
them goes on where each stands. A table that is new, or whose hub has other positions than before, is made from the
beginning; so are the hours when a time must be taken back that a sketch has in it, which only rows that come in another
order than they were written can bring about.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.lake.marts import MARTS
from eventhub.pipeline.facts.attempts import attempts_of
from eventhub.pipeline.facts.deliveries import deliveries_of
from eventhub.pipeline.facts.schemas import ATTEMPTS, ATTEMPTS_PATH, DELIVERIES, DELIVERIES_PATH
from eventhub.pipeline.frames import frame, write
from eventhub.pipeline.marts.depth import flows, queue_depth
from eventhub.pipeline.marts.measures import daily, hourly, measured, merged
from eventhub.pipeline.marts.rankings import dead_triage, hot_keys
from eventhub.pipeline.touched import Change, Touched, touched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventhub.lake.place import Lake
    from eventhub.lake.tables import LakeTable

__all__ = ["DERIVED", "Updated", "position_of", "update"]

DEFINITION: Final = 1
"""Raised when the facts or marts come to mean something else: all are made anew."""
DERIVED: Final[dict[str, pa.Schema]] = {ATTEMPTS_PATH: ATTEMPTS, DELIVERIES_PATH: DELIVERIES, **MARTS}
"""All tables by their paths."""
WAVES: Final = (
    (ATTEMPTS_PATH,),  # the first makes the stories that the others use, too
    (DELIVERIES_PATH, "marts/hourly", "marts/queue_depth"),
    ("marts/daily", "marts/dead_triage", "marts/hot_keys"),
)
"""What is made at the same time, so that no core waits while the next step is planned; later ones need earlier ones."""


class Updated(msgspec.Struct, frozen=True):
    """A table that was brought up to date: the rows written, and the days that were rewritten for it."""

    path: str
    rows: int
    days: int


class _Work(msgspec.Struct, frozen=True):
    """What making a table needs."""

    spark: SparkSession
    lake: Lake
    table: LakeTable
    touched: Touched

    def whole(self, path: str, days: set[str] | None) -> DataFrame:
        """Another table, or days of it."""
        return frame(self.spark, self.lake.derived(path, DERIVED[path]), days=days)


Made = tuple["DataFrame | None", set[str]]
"""The rows to write, and the days whose rows they replace."""


def update(
    spark: SparkSession, lake: Lake, *, source: str, upto: int, progress: Callable[[str], None] = lambda _: None
) -> list[Updated]:
    """Bring all facts and marts up to this position of the log, below which all of it is in the lake.

    ``source`` names the hub and where its positions come from. ``progress`` is told of each table before it is made.
    """
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # hours and days are those of UTC, whatever Spark was told
    known: dict[int, Touched | None] = {}
    done: list[Updated] = []

    def work_on(path: str) -> Callable[[], Updated] | None:
        table = lake.derived(path, DERIVED[path])
        since = position_of(table, source)
        if since >= upto:
            return None
        if since not in known:
            known[since] = touched(spark, lake, since=since, upto=upto)
        changes = known[since]
        if changes is None:
            return None
        progress(path)
        return lambda: _make(path, _Work(spark, lake, table, changes), source=source, since=since, upto=upto)

    try:
        for paths in WAVES:
            with ThreadPoolExecutor(len(paths)) as pool:
                begun = [pool.submit(work) for path in paths if (work := work_on(path)) is not None]
            done += [one.result() for one in begun]
    finally:
        for changes in known.values():
            if changes is not None:
                changes.forget()
    return done


def position_of(table: LakeTable, source: str) -> int:
    """Up to which position of the log a derived table goes."""
    return table.last_number(_named(source))


def _named(source: str) -> str:
    return f"{source}/derived@{DEFINITION}"


def _make(path: str, work: _Work, *, source: str, since: int, upto: int) -> Updated:
    rows, days = _MAKERS[path](work)
    entries = [] if rows is None else write(rows.select(*work.table.schema.names), work.table, name=f"derived-{upto}")
    # Another who believed us dead may have been here: what was added to the state before must not be added to his.
    work.table.replace(entries, days, source=_named(source), number=upto, after=since)
    return Updated(path, sum(entry.rows for entry in entries), len(days))


def _facts(rows_of: Callable[[DataFrame], DataFrame], gone: Change, *keys: str) -> Callable[[_Work], Made]:
    def make(work: _Work) -> Made:
        rows = rows_of(work.touched.told)
        if work.touched.is_all:
            return rows, work.table.days()
        days = work.touched.days(gone)
        if not days:
            return rows, set()
        leaving = rows.where("sign < 0").select(*keys)
        kept = frame(work.spark, work.table, days=days).join(leaving, list(keys), "left_anti")
        return rows.where("sign > 0").select(*work.table.schema.names).unionByName(kept), days

    return make


def _hourly(work: _Work) -> Made:
    if _is_counted_anew(work):
        return measured(hourly(work.touched.from_the_beginning())), work.table.days()
    counted = hourly(work.touched.told)
    days = work.touched.days("counted")
    before = frame(work.spark, work.table, days=days).select(*counted.columns)
    return measured(merged(before.unionByName(counted))), days


def _daily(work: _Work) -> Made:
    if _is_counted_anew(work):
        return daily(work.whole("marts/hourly", None)), work.table.days()
    days = work.touched.days("counted")
    return daily(work.whole("marts/hourly", days)), days


def _is_counted_anew(work: _Work) -> bool:
    return work.touched.is_all or bool(work.touched.days("time gone"))


def _queue_depth(work: _Work) -> Made:
    changed = flows(work.touched.told)
    if work.touched.is_all:
        return queue_depth(changed), work.table.days()
    days = work.touched.days("flowing")
    if not days:
        return None, set()
    # What changed in an hour shows in all that follow.
    first = min(days)
    before = frame(work.spark, work.table).select(*changed.columns)
    later = queue_depth(before.unionByName(changed)).where(F.col("day") >= first)
    return later, {day for day in work.table.days() if day >= first}


def _ranking(ranked: Callable[[DataFrame], DataFrame], change: Change) -> Callable[[_Work], Made]:
    def make(work: _Work) -> Made:
        if work.touched.is_all:
            return ranked(work.whole(DELIVERIES_PATH, None)), work.table.days()
        days = work.touched.days(change)
        return (ranked(work.whole(DELIVERIES_PATH, days)), days) if days else (None, set())

    return make


_MAKERS: Final[dict[str, Callable[[_Work], Made]]] = {
    ATTEMPTS_PATH: _facts(attempts_of, "attempt gone", "delivery_id", "fence"),
    DELIVERIES_PATH: _facts(deliveries_of, "delivery gone", "delivery_id"),
    "marts/hourly": _hourly,
    "marts/daily": _daily,
    "marts/queue_depth": _queue_depth,
    "marts/dead_triage": _ranking(dead_triage, "dead"),
    "marts/hot_keys": _ranking(hot_keys, "keyed"),
}
