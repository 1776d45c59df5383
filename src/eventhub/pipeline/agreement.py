"""Whether a lake and the ledger of a database belong together, before anything is copied from one to the other.

Both know the number of the last copy. They can fall apart when one of them is lost, restored from a backup, cloned or
mixed up with another; then numbers would stand for other rows than those that they were given for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventhub.errors import LakeMismatch
from eventhub.store.opening import shown

if TYPE_CHECKING:
    from eventhub.lake.tables import LakeTable
    from eventhub.store import Store
    from eventhub.store.incarnations import Incarnation
    from eventhub.store.ledger import Dataset, LakeCommit

__all__ = ["check_agreement", "check_owner", "check_same_copy", "incarnation_name", "is_new_to", "origin_name"]

REMEDY: Final = (
    "Give the right lake with --lake and the right database with --db, or put the lake right with "
    "`eventhub pipeline run --rebaseline`, which copies what it lacks."
)


def origin_name(source: str, origin: str) -> str:
    """Under this name the lake keeps the number of the last copy that was made from a database at this origin."""
    return f"{source}@{origin}"


def incarnation_name(source: str, incarnation: Incarnation) -> str:
    """Under this name the lake keeps the number of the last copy that was made from this incarnation of a database."""
    return f"{source}/incarnation/{incarnation.began_at}"


async def is_new_to(store: Store, table: LakeTable, dataset: Dataset) -> bool:
    """Whether the database became another incarnation since the last copy, which explains that they do not agree.

    A table without copies is no such: what was copied before is elsewhere, unless nothing ever was.
    """
    incarnation = await store.incarnation()
    source = f"{await store.hub_id()}/{dataset}"
    if not incarnation.began_at or table.last_number(incarnation_name(source, incarnation)):
        return False
    return bool(table.last_number(source)) or not await store.lake_commits(dataset, limit=1)


def check_owner(table: LakeTable, source: str) -> None:
    """Raise LakeMismatch when the table has copies of another hub, where the same ids are other events."""
    if table.has_others(source):
        raise LakeMismatch(
            f"The lake table {table.url} has copies of another hub, and a lake holds one. Give each hub a lake of its "
            "own with --lake; a hub that was copied elsewhere before begins there with `eventhub pipeline run "
            "--rebaseline`."
        )


async def check_agreement(store: Store, table: LakeTable, dataset: Dataset, horizon: int) -> None:
    """Raise LakeMismatch, with the remedy, when lake and ledger do not tell the same story."""
    source = f"{await store.hub_id()}/{dataset}"
    check_owner(table, source)
    in_lake = table.last_number(source)
    newest = next(iter(await store.lake_commits(dataset, limit=1)), None)
    intended = 0 if newest is None else newest.number
    is_open = newest is not None and newest.done_at is None
    done = intended - 1 if is_open else intended
    where = f"The lake table {table.url} and {shown(store.url)} do not fit together:"
    if newest is not None and is_open and newest.is_baseline and in_lake <= intended:
        return  # what does not fit is being put right
    if in_lake < done:
        raise LakeMismatch(f"{where} the table lacks the copies {in_lake + 1} to {done}. {REMEDY}")
    if in_lake > intended:
        raise LakeMismatch(
            f"{where} the table has copy {in_lake} and the database knows of {intended} only, as when it was restored "
            f"from a backup. {REMEDY}"
        )
    if in_lake and table.last_number(origin_name(source, await store.origin())) != in_lake:
        raise LakeMismatch(f"{where} its copies were made from another server, whose positions mean others. {REMEDY}")
    if newest is not None and newest.last > horizon:
        raise LakeMismatch(
            f"{where} position {newest.last} was copied, and the database has only come to {horizon}, as when it was "
            f"restored elsewhere. {REMEDY}"
        )


def check_same_copy(table: LakeTable, source: str, intention: LakeCommit) -> int:
    """The rows of the copy that the lake has under this number, which must be of the intended range."""
    about = table.about(source, intention.number)
    if about and (about["first"], about["last"]) != (intention.first, intention.last):
        raise LakeMismatch(
            f"The lake table {table.url} has a copy {intention.number} of other positions ({about['first']} to "
            f"{about['last']} instead of {intention.first} to {intention.last}): two databases that were one are "
            f"copied to it. {REMEDY}"
        )
    return int(about.get("rows", 0))
