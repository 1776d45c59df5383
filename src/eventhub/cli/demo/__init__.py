"""``eventhub demo``: the main job end to end, told to someone who has never seen the hub.

    handlers in one process ──▶ work shared by processes ──▶ how fast ──▶ the sum: nothing lost

The sum is taken from the database, not from memory, and a sum that does not add up is a failure.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from eventhub.cli.options import Common, open_named
from eventhub.cli.output import document
from eventhub.config import hide_password
from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage
    from eventhub.config import Settings

__all__ = ["app"]

app = App(name="demo")

MOST_EVENTS = 10_000_000


@app.default
def demo(
    *,
    events: Annotated[int, Parameter(help="How many events the part about speed takes.")] = 20_000,
    keep: Annotated[bool, Parameter(help="Keep the database, to look around in it.", negative="")] = False,
    common: Common | None = None,
) -> int:
    """See what the hub does, end to end, in a few seconds.

    It works in a fresh SQLite file that is removed afterwards. Only --db leads it to another database, never a
    variable or a file; there it uses queues of its own and leaves its events for you to look at.
    """
    if not 1 <= events <= MOST_EVENTS:
        raise SettingsError(f"--events is {events}; give a number from 1 to {MOST_EVENTS:,}.")
    common = common or Common()
    loaded = common.load()
    if loaded.is_default("log_level"):
        from eventhub.observe.logging import configure

        configure("critical")  # the failures below are on purpose, and told in plain words
    settings = loaded.settings
    with ExitStack() as cleanup:
        if common.db is None:
            directory = tempfile.mkdtemp(prefix="eventhub-demo-")
            if not keep:
                cleanup.callback(_remove, directory)
            settings = msgspec.structs.replace(settings, db=str(Path(directory) / "demo.db"))
        kept = keep or common.db is not None
        return asyncio.run(_run(settings, events=events, own=common.db is None, kept=kept, quiet=common.json))


async def _run(settings: Settings, *, events: int, own: bool, kept: bool, quiet: bool) -> int:
    from eventhub.cli.demo import bus_part, killed_part, queue_part, speed_part
    from eventhub.cli.demo.stage import Narrator, Stage
    from eventhub.cli.demo.tally import count

    narrator = Narrator(quiet=quiet)
    async with open_named(settings) as store:
        stage = Stage(store, narrator, prefix="" if own else f"demo-{secrets.token_hex(3)}-")
        narrator.opening(hide_password(settings.db))
        await bus_part.play(stage)
        await queue_part.play(stage)
        await killed_part.play(stage)
        await speed_part.play(stage, events=events)
        with narrator.waiting("Adding up what the database says …"):
            sum_ = await count(stage)
    if quiet:
        document({**sum_.to_dict(), "database": hide_password(settings.db) if kept else None})
    else:
        narrator.closing(sum_)
        _where_next(stage, settings.db if kept else None)
    return 0 if sum_.ok else 1


def _where_next(stage: Stage, db: str | None) -> None:
    narrator = stage.narrator
    if db is None:
        narrator.say("The database is gone again. `eventhub demo --keep` keeps it, so that you can look around.")
        return
    shown = hide_password(db)
    narrator.say("Look around in the database that this made:")
    for command in ("stats", "dlq list", f"events list --queue {stage.queue('reports')}", "doctor"):
        narrator.command(f"eventhub --db '{shown}' {command}")


def _remove(directory: str) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)
