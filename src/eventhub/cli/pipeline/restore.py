"""``eventhub pipeline restore``: archived days come back into the database."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, plain
from eventhub.cli.pipeline.options import LakeOptions, needs_spark
from eventhub.cli.progress import bar
from eventhub.errors import SettingsError
from eventhub.store.audit import Act

if TYPE_CHECKING:
    from eventhub.pipeline.restoring import Restored

__all__ = ["restore"]


def restore(
    *,
    day: Annotated[
        tuple[str, ...],
        Parameter(help="A day, in UTC, as 2026-01-31; again for more.", negative_iterable=(), required=True),
    ],
    options: LakeOptions | None = None,
) -> None:
    """Bring archived days back into the database, under their old ids, as history that nobody works on.

    The next `archive` takes them away again when they are old enough.
    """
    options = options or LakeOptions()
    days = [_day(text) for text in day]
    settings = options.load_for_database().settings
    needs_spark()

    async def work() -> list[Restored]:
        from eventhub.lake.place import Lake
        from eventhub.pipeline.restoring import restore as run

        done = []
        with bar("days", len(days), quiet=options.json) as advance:
            async with open_existing(settings) as store:
                for each in days:
                    await store.record_act(Act("history.restore", None, {"day": each.isoformat()}))
                    done.append(await run(store, settings.db, Lake(settings.lake), each))
                    advance(1)
        return done

    from eventhub.lake.troubles import told

    with told(settings.lake):
        done = asyncio.run(work())
    if options.json:
        document({"days": done})
        return
    for each in done:
        more = [f"{each.present:,} were there"] if each.present else []
        more += [f"{each.dead:,} were given up and are left as they are"] if each.dead else []
        words = f"{each.day}: {each.events:,} events and {each.log:,} rows of the log came back"
        console().print(plain("; ".join([words, *more]) + "."))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise SettingsError(f"--day is {text[:40]!r}; give a day such as 2026-01-31.") from None
