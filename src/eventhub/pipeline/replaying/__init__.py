"""Replaying: events of the lake are published again, as new ones that are linked to them.

    lake ─▶ filter ─▶ the events of each ordering key in one task, in their order ─▶ published in bulk, at a chosen rate

A replay has a name, and every event of it a key made of that name and the old event's id. Who runs it again under the
same name completes it: what was published before is found and not published twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from eventhub.core.events import REPLAY_OF
from eventhub.errors import EventHubError, SettingsError
from eventhub.pipeline.agreement import check_owner
from eventhub.pipeline.frames import frame, ours
from eventhub.pipeline.replaying.publishing import COLUMNS, Order, key_prefix, republish
from eventhub.pipeline.source.database import located, open_shared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from eventhub.lake.place import Lake

__all__ = ["Chosen", "Order", "Replayed", "check_lake", "check_name", "count", "replay"]

_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,100}\Z")
_DATA: Final = "22"
"""How Spark's states begin when a value is not as an expression needs it."""
_COUNTS: Final = "events long, duplicates long"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which events; everything that is given must fit, of ``types``, ``tags`` and ``ids`` any one."""

    since: datetime | None = None
    until: datetime | None = None
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    where: str | None = None
    ids: tuple[int, ...] = ()


class Replayed(msgspec.Struct, frozen=True):
    """How many events the replay has; ``duplicates`` of them had been published before under its name."""

    events: int
    duplicates: int


def check_name(name: str) -> str:
    """The name of a replay, if it can be one."""
    if not _NAME.match(name):
        raise SettingsError(f"The name {name[:40]!r} cannot be used; give up to 100 letters, digits and . _ : -")
    return name


async def check_lake(url: str, lake: Lake) -> None:
    """Raise LakeMismatch when the lake is that of another hub than the one to publish in."""
    async with open_shared(url) as store:
        source = f"{await store.hub_id()}/events"
    await asyncio.to_thread(check_owner, lake.dataset("events"), source)


def count(spark: SparkSession, lake: Lake, chosen: Chosen, name: str) -> dict[str, int]:
    """How many events are still to be replayed, by type, the most frequent first."""
    left, _ = _left(spark, lake, chosen, name)
    try:
        rows = left.groupBy("type").count().collect()
    except PySparkException as error:
        raise _told(error) from None
    return dict(sorted(((row["type"], row["count"]) for row in rows), key=lambda pair: (-pair[1], pair[0])))


def replay(spark: SparkSession, lake: Lake, chosen: Chosen, order: Order, *, rate: float | None = None) -> Replayed:
    """Publish the chosen events again, at most ``rate`` a second."""
    asyncio.run(check_lake(order.url, lake))
    order = msgspec.structs.replace(order, url=located(order.url))  # tasks have other working directories
    left, done_before = _left(spark, lake, chosen, order.name)
    wanted = left.select(*COLUMNS)
    if order.subscriber is not None:
        tasks, placed = 1, wanted.coalesce(1)
    else:
        tasks = spark.sparkContext.defaultParallelism
        placed = wanted.repartition(tasks, f.coalesce("ordering_key", f.col("id").cast("string")))
    each = None if rate is None else rate / tasks

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        events, duplicates = republish(batches, order, each)
        yield pa.RecordBatch.from_pydict({"events": [events], "duplicates": [duplicates]})

    try:
        before = done_before.count()
        done = placed.sortWithinPartitions("id").mapInArrow(task, _COUNTS).collect()
    except PySparkException as error:
        raise _told(error) from None
    return Replayed(before + sum(row["events"] for row in done), before + sum(row["duplicates"] for row in done))


def _told(error: PySparkException) -> Exception:
    """What a task said, in its own words if they are ours; of Spark's, those that tell what happened."""
    told = ours(error)
    if told is not None:
        return told
    if (error.getSqlState() or "").startswith(_DATA):
        return SettingsError(f"--where fails on an event: {_first_line(error)}")
    return EventHubError(f"Spark could not do it: {_first_line(error)}")


def _first_line(error: PySparkException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _selected(spark: SparkSession, lake: Lake, chosen: Chosen) -> DataFrame:
    events = frame(spark, lake.dataset("events"), least={"id": min(chosen.ids)} if chosen.ids else None)
    for condition in _conditions(chosen):
        events = events.where(condition)
    if chosen.where is not None:
        try:
            events = events.where(chosen.where)
        except PySparkException as error:
            raise SettingsError(f"--where is no condition on events: {_first_line(error)}") from None
    return events


def _left(spark: SparkSession, lake: Lake, chosen: Chosen, name: str) -> tuple[DataFrame, DataFrame]:
    """The chosen events that the lake does not know as replayed under this name, and those that it does.

    Keys in the database keep the others from being published twice; an event that was archived since has none. Nor does
    a replay replay its own events, which also say in their metadata what their key says: anybody may choose such a key.
    """
    keys = frame(spark, lake.dataset("events"), columns=["idempotency_key", "metadata"])
    replayed = f.get_json_object("metadata", f"$.{REPLAY_OF}")
    own = f.startswith(f.col("idempotency_key"), f.lit(key_prefix(name))) & (
        f.col("idempotency_key") == f.concat(f.lit(key_prefix(name)), replayed)
    )
    done = keys.where(own).select(replayed.try_cast("long").alias("id")).distinct()
    wanted = _selected(spark, lake, chosen).where(~f.coalesce(own, f.lit(False)))
    return wanted.join(done, "id", "left_anti"), wanted.join(done, "id", "left_semi")


def _conditions(chosen: Chosen) -> Iterator[Column]:
    if chosen.since is not None:
        yield (f.col("day") >= f.lit(chosen.since.date())) & (f.col("created_at") >= f.lit(chosen.since))
    if chosen.until is not None:
        yield (f.col("day") <= f.lit(chosen.until.date())) & (f.col("created_at") < f.lit(chosen.until))
    if chosen.types:
        yield f.col("type").isin(*chosen.types)
    if chosen.tags:
        given = f.split(f.trim("tags"), r"\s*,\s*")
        yield f.arrays_overlap(given, f.array(*map(f.lit, chosen.tags)))
    if chosen.ids:
        yield f.col("id").isin(*chosen.ids)
