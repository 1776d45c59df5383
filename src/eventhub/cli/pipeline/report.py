"""``eventhub pipeline report``: the last days in charts and tables, one file that can be sent to anybody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, plain
from eventhub.cli.pipeline.options import LakeOptions, needs_spark
from eventhub.cli.progress import waiting
from eventhub.cli.times import length
from eventhub.config import Settings
from eventhub.errors import SettingsError, StoreError

__all__ = ["report"]

MOST_DAYS: Final = 3660


def report(
    *,
    out: Annotated[Path, Parameter(help="The file to write; the same figures as JSON are put beside it.")] = Path(
        "report.html"
    ),
    days: Annotated[int, Parameter(help="How many days, up to the last one that the lake knows.")] = 7,
    stale: Annotated[str, Parameter(help="A worker that was not seen for so long before the end is stale.")] = "1h",
    common: LakeOptions | None = None,
) -> None:
    """Write a report of the last days: throughput, latencies, failures, dead letters, busy keys, stale workers.

    It reads the marts of the lake, which `eventhub pipeline run` makes, and starts no Java.
    """
    common = common or LakeOptions()
    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"--out is {out}; give a name that ends in .html.")
    if not out.absolute().parent.is_dir():
        raise SettingsError(f"--out is {out}; there is no directory {out.absolute().parent}. Make it first.")
    if not 1 <= days <= MOST_DAYS:
        raise SettingsError(f"--days is {days}; give a number from 1 to {MOST_DAYS:,}.")
    needs_spark()
    from eventhub.lake.place import Lake
    from eventhub.lake.troubles import told
    from eventhub.pipeline.report import write_report

    settings = common.load().settings
    subscribers, after = asyncio.run(_names(settings)), length("stale", stale)
    with told(settings.lake), waiting("Reading the lake", quiet=common.json):
        figures = write_report(Lake(settings.lake), out, days=days, stale_after=after, subscribers=subscribers)
    if common.json:
        document(figures)
        return
    counts = figures.total.counts
    console().print(
        plain(
            f"{figures.first_day} to {figures.last_day}: {counts['published']:,} events, {counts['attempts']:,} "
            f"attempts, {counts['dead']:,} dead. See {out} and {out.with_suffix('.json')}"
        )
    )


async def _names(settings: Settings) -> dict[str, str]:
    """Subscribers by id, from the database if it is at hand; the report is the lake's, and does without."""
    try:
        async with open_existing(settings) as store:
            _, rows = await store.subscribers()
            return {str(row.id): row.name for row in rows}
    except StoreError as error:
        console(stderr=True).print(plain(f"Subscribers are told by their ids: {error}"))
        return {}
