"""``eventhub pipeline archive``: old days leave the database once the lake was found to have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, plain, table
from eventhub.cli.pipeline.options import LakeOptions, needs_spark
from eventhub.cli.pipeline.progress import Progress
from eventhub.cli.times import length
from eventhub.store.audit import Act

if TYPE_CHECKING:
    from eventhub.pipeline.archiving import ArchivedDay

__all__ = ["archive"]


def archive(
    *,
    older_than: Annotated[str, Parameter(help="Days that ended so long ago: 30d, 12w.")] = "30d",
    dry_run: Annotated[bool, Parameter(help="Only tell what would be archived.", negative="")] = False,
    options: LakeOptions | None = None,
) -> int:
    """Let old days leave the database: those whose copy in the lake was read again and is the same, row by row.

    What is open stays, with its whole log: work, messages, dead letters. An archived event can still be looked at and
    replayed. Ends with 1 when the lake's copy of a day differs; that day stays as it is.
    """
    options = options or LakeOptions()
    age = length("older-than", older_than)
    settings = options.load_for_database().settings
    needs_spark()

    async def work() -> list[ArchivedDay]:
        from eventhub.lake.place import Lake
        from eventhub.pipeline.archiving import archive as run

        days: list[ArchivedDay] = []
        async with open_existing(settings) as store:
            before = _midnight(await store.now() - age)
            if not dry_run:
                await store.record_act(Act("history.archive", None, {"before": before}))
            async with aclosing(run(store, settings.db, Lake(settings.lake), before=before, dry_run=dry_run)) as done:
                progress.note("Comparing the lake's oldest days with the database")
                async for day in done:
                    days.append(day)
                    progress.note(f"Behind {day.day}, {day.dataset}")
                    if not options.json:
                        _tell(day, dry_run=dry_run)
        return days

    from eventhub.lake.troubles import told

    progress = Progress(quiet=options.json)
    try:
        with told(settings.lake):
            days = asyncio.run(work())
    finally:
        progress.close()
    if options.json:
        document({"dry_run": dry_run, "days": days})
    else:
        _print(days, dry_run=dry_run)
    return 1 if any(day.trouble for day in days) else 0


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _tell(day: ArchivedDay, *, dry_run: bool) -> None:
    if day.trouble is not None:
        console(stderr=True).print(plain(f"{day.day}: {day.trouble}."))
    elif not dry_run and day.gone:
        console(stderr=True).print(plain(f"{day.day}: {day.gone:,} of {day.rows:,} rows of {day.dataset}"))


def _print(days: Sequence[ArchivedDay], *, dry_run: bool) -> None:
    if not days:
        console().print("There is nothing that old.")
        return
    can_go = "would leave" if dry_run else "left"
    rows = table("day", "dataset", "rows", can_go, "stay", "", numbers=("rows", can_go, "stay"))
    for day in days:
        gone = day.rows - day.staying if dry_run else day.gone
        note = "its copy in the lake differs" if day.trouble else ""
        rows.add_row(str(day.day), day.dataset, f"{day.rows:,}", f"{gone:,}", f"{day.rows - gone:,}", note)
    console().print(rows)
