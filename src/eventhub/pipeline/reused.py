"""Ids that a database gives out twice: it was restored from a backup, and does not know those that it gave out since.

The lake knows them. Right after the restore, new ids are made to begin behind them; once an id stands for other rows on
both sides, nobody can tell any more which of them a row of the log means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from eventhub.errors import LakeMismatch
from eventhub.lake.gathering import gathered
from eventhub.lake.reading import TableReader
from eventhub.pipeline.loading import load, open_target
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.tables import chosen
from eventhub.store.opening import shown
from eventhub.store.queries import load_queries

if TYPE_CHECKING:
    from eventhub.lake.tables import LakeTable
    from eventhub.store.ledger import Dataset

__all__ = ["check_ids", "pass_ids"]

SQL = load_queries("eventhub.lake")
_HIGHEST: Final = {"events": SQL.highest_events, "event_log": SQL.highest_event_log}
_COLUMNS: Final = ("id", "created_at")
ROWS_AT_ONCE: Final = 1_000_000
NAMED: Final = 5


def pass_ids(url: str, dataset: Dataset, table: LakeTable) -> None:
    """Let ids that are given out from now on be higher than all that the lake knows."""
    reader = TableReader(table)
    reader.refresh()
    (highest,) = reader.answer(_HIGHEST[dataset]) or [{"row": None}]
    if highest["row"] is None:
        return
    with open_target(url) as target:
        target.pass_ids(highest["id"])
        is_behind = dataset == "event_log" and target.next_entry() <= highest["row"]
    if is_behind:  # SQLite counts on from the last row that is there
        load(url, dataset, reader.rows(between={"id": (highest["row"],) * 2}).to_batches(), copied=True)


def check_ids(url: str, dataset: Dataset, table: LakeTable) -> None:
    """Raise LakeMismatch when an id stands for a row here, and for one of another time in the lake."""
    reader = TableReader(table)
    reader.refresh()
    clashing: list[int] = []
    all_rows = open_database(url).read(Slice(dataset, Visible()), chosen(dataset, list(_COLUMNS)))
    for rows in gathered(all_rows, enough_rows=ROWS_AT_ONCE):
        bounds = pc.min_max(rows["id"])
        span = {"id": (bounds["min"].as_py(), bounds["max"].as_py())}
        copies = reader.rows(between=span, columns=list(_COLUMNS))
        both = rows.join(copies, "id", join_type="inner", right_suffix="_of_copy")
        clashing += both.filter(pc.not_equal(both["created_at"], both["created_at_of_copy"]))["id"].to_pylist()
    if clashing:
        named = ", ".join(map(str, sorted(set(clashing))[:NAMED]))
        raise LakeMismatch(
            f"{shown(url)} was restored from a backup and used since: ids of {dataset} stand for one row there and for "
            f"another in the lake ({named}{' and more' if len(clashing) > NAMED else ''}), so that one table cannot "
            "have both. Keep this lake for its past and begin a new one: `eventhub pipeline run --rebaseline` with "
            "another --lake. After a restore, run it before the hub is used: then new ids begin behind those of the "
            "lake."
        )
