"""``eventhub restored``: say that the database was restored from a backup."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cyclopts import App

from eventhub.cli.options import Common, open_existing
from eventhub.cli.output import console, document, plain

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.incarnations import Restored

__all__ = ["app"]

app = App(name="restored")


@app.default
def restored(*, common: Common | None = None) -> None:
    """Say that the database was restored from a backup, a dump or a copy of its file.

    It does not know what was given out since the backup was made. So a new incarnation of it begins: ids of events and
    messages, and with them webhook-ids, go on far above all that were given before, and claims from before are void.
    PostgreSQL's other processes are made to connect anew; those that use an SQLite file must be stopped first.

    After a failover of PostgreSQL, and after most restores of it, this happens by itself.
    """
    common = common or Common()
    store = open_existing(common.load_for_database().settings)
    done = asyncio.run(_begin(store))
    began = done.incarnation
    if common.json:
        document(
            {
                "incarnation": began.number,
                "began": began.began,
                "ids_above": done.after,
                "sessions_ended": done.ended,
                "sessions_left": done.left,
            }
        )
        return
    out = console()
    out.print(plain(f"{store.name} is incarnation {began.number} now: ids go on above {done.after}."))
    if done.ended:
        out.print(plain(f"Sessions of other processes that were made to connect anew: {done.ended}."))
    if done.left:
        out.print(plain(f"Sessions of other users are left: {done.left}. Restart the processes that they belong to."))
    out.print(plain("What the lake has that the database lacks stays there; the next run of the pipeline sees to it."))


async def _begin(store: Store) -> Restored:
    try:
        return await store.begin_incarnation()
    finally:
        await store.close()
