"""``eventhub pipeline status``: how far the lake is, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventhub.cli.options import with_store
from eventhub.cli.output import console, document, duration, moment, plain, records, table
from eventhub.cli.pipeline.options import LakeOptions, needs_spark

if TYPE_CHECKING:
    from eventhub.lake.standing import Standing

__all__ = ["status"]

KILO = 1024


def status(*, options: LakeOptions | None = None) -> None:
    """Show how far the history was copied to the lake, what waits, what holds it back, and what the tables hold."""
    options = options or LakeOptions()
    needs_spark()
    from eventhub.lake.place import Lake
    from eventhub.lake.standing import standing
    from eventhub.lake.troubles import told

    lake = Lake(options.load().settings.lake)
    with told(lake.url):
        found = with_store(options, lambda store: standing(store, lake))
    if options.json:
        document(found)
        return
    _print(found)


def _print(found: Standing) -> None:
    numbers = ("position", "horizon", "waiting rows", "oldest waits", "copies")
    datasets = table("dataset", *numbers, "last copy", "", numbers=numbers)
    for one in found.datasets:
        datasets.add_row(
            one.dataset,
            f"{one.position:,}",
            f"{one.horizon:,}",
            f"{one.lag_rows:,}",
            duration(one.lag_seconds) if one.lag_rows else "",
            f"{one.copies:,}",
            "" if one.last_at is None else f"{moment(one.last_at)} ({one.last_rows or 0:,} rows)",
            "" if one.under_way is None else f"copy {one.under_way} was begun",
        )
    out = console()
    out.print(datasets)
    if found.tables:
        figures = ("version", "files", "size", "rows")
        tables = table("table", *figures, "changed", numbers=figures)
        for kept in found.tables:
            size = _size(kept.bytes)
            tables.add_row(
                kept.table, str(kept.version), f"{kept.files:,}", size, f"{kept.rows:,}", moment(kept.changed_at)
            )
        out.print(tables)
    age = found.horizon_age_seconds
    running = found.running
    out.print(
        records(
            [
                ("lake", plain(found.lake if found.tables else f"{found.lake} (nothing there yet)")),
                ("last run", moment(found.last_run_at)),
                ("running now", "" if running is None else plain(f"{running.owner}, until {moment(running.until)}")),
                ("oldest open transaction", "" if age is None else f"{duration(age)}: nothing after it can be copied"),
            ]
        )
    )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < KILO:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= KILO
    return f"{count:,.1f} TB"
