"""``eventhub demo``: the whole product on one machine, told to someone who has never seen it; ``demo serve`` stays.

    bus ──▶ queue ──▶ HTTP workers ──▶ webhooks ──▶ a killed worker ──▶ speed ──▶ the sum ──▶ Spark ──▶ the report

The sums are taken from the database and from the lake, not from memory, and one that does not add up is a failure.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter

from eventhub.cli.demo.place import DIRECTORY, check_port, fresh
from eventhub.cli.options import Common
from eventhub.errors import SettingsError

__all__ = ["app"]

app = App(
    name="demo",
    help_epilogue="It makes a database of its own in the directory of --dir; no variable and no file leads it to "
    "another. Exit codes: 0 it worked, 1 it failed or found a problem, 2 it was called the wrong way, 130 interrupted.",
)

MOST_EVENTS: Final = 10_000_000
LARGEST_PORT: Final = 65_535
Dir = Annotated[Path, Parameter(name="--dir", help="Where the files of the demo go; replaced each time.")]


@app.default
def demo(
    *,
    events: Annotated[int, Parameter(help="How many events the part about speed takes.")] = 20_000,
    no_spark: Annotated[bool, Parameter(help="Leave out the part about Spark.", negative="")] = False,
    directory: Dir = DIRECTORY,
    common: Common | None = None,
) -> int:
    """See what the hub does, end to end, in a minute or two.

    It works in a fresh SQLite file, in a directory that stays for you to look at and is replaced the next time. Only
    --db leads it to another database, never a variable or a file: to an empty one, where it leaves its events.
    """
    if not 1 <= events <= MOST_EVENTS:
        raise SettingsError(f"--events is {events}; give a number from 1 to {MOST_EVENTS:,}.")
    common = common or Common()
    loaded = common.load()
    _needs_server()
    if loaded.is_default("log_level"):
        _hush()
    from eventhub.cli.demo.tour import Tour, ended_by_signals

    with fresh(directory / "tour") as place:
        db = str(place / "demo.db") if common.db is None else common.db
        settings = msgspec.structs.replace(loaded.settings, db=db)
        tour = Tour(settings, place, events=events, spark=not no_spark, json=common.json)
        return asyncio.run(ended_by_signals(tour.run()))


@app.command
def serve(
    *,
    port: Annotated[int, Parameter(help="The port of 127.0.0.1 to listen on; 0 takes a free one.")] = 8080,
    events: Annotated[int, Parameter(help="How many events the made-up week before now has.")] = 30_000,
    no_spark: Annotated[bool, Parameter(help="Do without the history, which Spark makes.", negative="")] = False,
    directory: Dir = DIRECTORY,
    debug: Annotated[bool, Parameter(help="Show where an error came from.", negative="", show_default=False)] = False,
) -> int:
    """Keep a hub with demo data and some traffic running, for a look around, until Ctrl-C."""
    del debug  # the entry point looks for it
    if not 0 <= port <= LARGEST_PORT:
        raise SettingsError(f"--port is {port}; give a number from 0 to {LARGEST_PORT}.")
    if not 1 <= events <= MOST_EVENTS:
        raise SettingsError(f"--events is {events}; give a number from 1 to {MOST_EVENTS:,}.")
    _needs_server()
    _hush()
    check_port(port)  # before a week is made up, and what another demo left is replaced
    from eventhub.cli.demo.living import Living

    with fresh(directory / "hub") as place:
        return asyncio.run(Living(place, port=port, events=events, spark=not no_spark).run())


def _hush() -> None:
    """No log: the failures of a demo are on purpose, and told in plain words."""
    from eventhub.observe.logging import configure

    configure("critical")


def _needs_server() -> None:
    try:
        import aiohttp  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise SettingsError("The demo runs a server, which needs more packages: pip install 'eventhub[server]'.") from (
            error
        )
