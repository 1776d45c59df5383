"""How the lake stands: how far each dataset was copied, what waits, and what the tables hold. No Spark is needed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.store.ledger import COPIED

if TYPE_CHECKING:
    from eventhub.lake.place import Lake
    from eventhub.store import Store
    from eventhub.store.ledger import Dataset, LakeCommit

__all__ = ["LOCK", "DatasetStanding", "Holder", "Standing", "TableStanding", "lag", "standing"]

LOCK: Final = "pipeline"
"""Who runs the pipeline of a hub holds it."""


class DatasetStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How far a dataset was copied: below ``position``; ``horizon`` is how far it could be.

    ``lag_rows`` wait, the oldest of them for ``lag_seconds``; ``under_way`` is a copy that was begun and not finished.
    """

    dataset: Dataset
    position: int
    horizon: int
    lag_rows: int
    lag_seconds: float
    copies: int
    last_rows: int | None = None
    last_at: datetime | None = None
    under_way: int | None = None


class TableStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What a table of the lake holds."""

    table: str
    version: int
    files: int
    bytes: int
    rows: int
    changed_at: datetime | None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs the pipeline now: host and process id, and until when unless it goes on."""

    owner: str
    until: datetime


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it. ``horizon_age_seconds`` is the age of the oldest open transaction that writes."""

    lake: str
    datasets: list[DatasetStanding]
    tables: list[TableStanding]
    horizon_age_seconds: float | None
    last_run_at: datetime | None
    running: Holder | None


async def standing(store: Store, lake: Lake) -> Standing:
    """Look at everything."""
    datasets = [await lag(store, dataset) for dataset in COPIED]
    tables = await asyncio.to_thread(_tables, lake)
    age = await store.horizon_age()
    holder = await store.lock_holder(LOCK)
    finished = [one.last_at for one in datasets if one.last_at is not None]
    return Standing(
        lake=lake.url,
        datasets=datasets,
        tables=tables,
        horizon_age_seconds=None if age is None else age.total_seconds(),
        last_run_at=max(finished, default=None),
        running=None if holder is None else Holder(owner=":".join(holder.owner.split(":")[:2]), until=holder.until),
    )


async def lag(store: Store, dataset: Dataset) -> DatasetStanding:
    """How far a dataset was copied, and what waits."""
    commits = await store.lake_commits(dataset, limit=2)
    done = [commit for commit in commits if commit.done_at is not None]
    last: LakeCommit | None = done[0] if done else None
    position = 0 if last is None else last.last
    waiting = await store.waiting(dataset, position)
    now = await store.now()
    return DatasetStanding(
        dataset=dataset,
        position=position,
        horizon=await store.horizon(dataset),
        lag_rows=waiting.rows,
        lag_seconds=0.0 if waiting.oldest is None else max((now - waiting.oldest).total_seconds(), 0.0),
        copies=0 if last is None else last.number,
        last_rows=None if last is None else last.rows,
        last_at=None if last is None else last.done_at,
        under_way=None if not commits or commits[0].done_at is not None else commits[0].number,
    )


def _tables(lake: Lake) -> list[TableStanding]:
    found = []
    for path in lake.tables():
        table = lake.table(path)
        newest = next(iter(table.open().history(1)), {})
        changed = newest.get("timestamp")
        found.append(
            TableStanding(
                table=path,
                changed_at=None if changed is None else datetime.fromtimestamp(changed / 1000, UTC),
                **table.describe(),
            )
        )
    return found
