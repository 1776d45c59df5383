"""Putting a lake right that does not fit the database any more: copying what it lacks, whatever was copied before.

    rows of the database that the lake has (by id and time) ─▶ stay as they are in the lake
    rows that it lacks                                      ─▶ are copied
    rows of the lake that the database lacks                ─▶ stay: they are history

It is one copy like the others, from the very beginning, under a number above all that either side knows. Rows that were
in the lake get position 1, below all that follow, because their old ones may mean something else now. A lake that has
other rows under the ids of the database is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.errors import StoreBusy
from eventhub.pipeline.agreement import check_owner
from eventhub.pipeline.frames import frame, frame_of, write
from eventhub.pipeline.reused import check_ids, pass_ids
from eventhub.pipeline.source.database import located

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventhub.lake.files import FileEntry
    from eventhub.lake.place import Lake
    from eventhub.lake.tables import LakeTable
    from eventhub.store import Store
    from eventhub.store.ledger import Dataset

__all__ = ["baseline_name", "intend_baseline", "merge"]


def baseline_name(source: str) -> str:
    """Under this name the lake keeps the number of the copy that put it right, if there was one."""
    return f"{source}/baseline"


async def intend_baseline(store: Store, lake: Lake, dataset: Dataset) -> None:
    """Make the next copy one that starts from the beginning; ids that the lake knows are not given out again."""
    table, url = lake.dataset(dataset), located(store.url)
    source = f"{await store.hub_id()}/{dataset}"
    await asyncio.to_thread(check_owner, table, source)
    if dataset != "audit":  # nothing refers to its ids; with their times they tell its rows apart
        await asyncio.to_thread(pass_ids, url, dataset, table)
    passed = await store.reposition(dataset)
    horizon = await store.horizon(dataset)
    if horizon < passed:
        age = await store.horizon_age()
        raise StoreBusy(
            f"A transaction that writes has been open for {age or 'a moment'}, so that it is not known yet which rows "
            "there are. Wait until it has ended, then run it again."
        )
    if dataset != "audit":
        await asyncio.to_thread(check_ids, url, dataset, table)  # whoever took an id before has ended
    in_lake = table.last_number(source)
    newest = next(iter(await store.lake_commits(dataset, limit=1)), None)
    number = max(in_lake, 0 if newest is None else newest.number) + 1
    if number > 1:
        await store.restart_commits(dataset, number, last=horizon)


def merge(
    spark: Callable[[], SparkSession], table: LakeTable, written: Sequence[FileEntry]
) -> tuple[list[FileEntry], set[str], int]:
    """Files that hold what the table has and what only the written ones have; the days they replace, and new rows."""
    if not table.exists or not table.file_uris():
        return list(written), set(), sum(entry.rows for entry in written)
    session = spark()
    root = table.url if "://" in table.url else table.filesystem()[1]
    old = frame(session, table)
    fresh = frame_of(session, table, [f"{root}/{entry.path}" for entry in written])
    lacking = fresh.join(old.select("id", "created_at"), ["id", "created_at"], "left_anti").select(*old.columns)
    entries = write(old.withColumn("position", F.lit(1).cast("long")).unionByName(lacking), table, name="baseline")
    return entries, table.days(), sum(entry.rows for entry in entries) - table.describe()["rows"]
