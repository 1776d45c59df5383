"""What every command has in common: its options, the settings they lead to, and the store behind them.

Annotations are real ones here, not text: commands of other modules add options to ``Common``, where the names in such a
text would mean nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Group, Parameter

from eventhub.cli.output import console, plain
from eventhub.cli.progress import on_terminal
from eventhub.config import Loaded, Settings, describe, load
from eventhub.errors import SettingsError, StoreUnavailable
from eventhub.store.opening import open_named

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["Common", "flag", "open_existing", "open_named", "with_store"]

R = TypeVar("R")
COMMON = Group("Common options", sort_key=100)


def flag(name: str) -> Parameter:
    """The flag of a setting: its help is the setting's own description."""
    return Parameter(name=f"--{name.replace('_', '-')}", help=describe(name), group=COMMON, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of every command."""

    db: Annotated[str | None, flag("db")] = None
    json: Annotated[
        bool,
        Parameter(
            help="One JSON document on standard output, for programs.",
            negative="",
            group=COMMON,
            show_default=False,
        ),
    ] = False
    debug: Annotated[
        bool, Parameter(help="Show where an error came from.", negative="", group=COMMON, show_default=False)
    ] = False
    log_level: Annotated[str | None, flag("log_level")] = None
    log_format: Annotated[str | None, flag("log_format")] = None
    pool_size: Annotated[str | None, flag("pool_size")] = None
    listen_url: Annotated[str | None, flag("listen_url")] = None
    synchronous: Annotated[str | None, flag("synchronous")] = None

    def load(self) -> Loaded:
        """The settings that hold for this command; also sets up the log."""
        flags = {name: getattr(self, name, None) for name in Settings.__struct_fields__}
        loaded = load(flags)
        from eventhub.observe.logging import configure

        configure(loaded.settings.log_level, loaded.settings.log_format)
        for name in loaded.exposed():
            warn_of_exposed(name)
        return loaded

    def load_for_database(self) -> Loaded:
        """The same for a command that works on the database itself. It says which one, unless a flag did.

        When only a hub was named, a database of the default name is hardly the one that is meant.
        """
        loaded = self.load()
        if loaded.is_default("db") and not loaded.is_default("url"):
            raise SettingsError(
                f"This command works on a database, and only a hub is named: {loaded.shown('url')} "
                f"(from {loaded.sources['url']}). Name the hub's database with --db or EVENTHUB_DB."
            )
        self.say_target("database", loaded, "db")
        return loaded

    def say_target(self, kind: str, loaded: Loaded, name: str) -> None:
        """Tell people what a command works on, where they did not say so themselves."""
        if self.json or loaded.sources[name].startswith("flag") or not on_terminal():
            return
        console(stderr=True).print(plain(f"{kind}: {loaded.shown(name)} ({loaded.sources[name]})"), style="dim")


def warn_of_exposed(name: str) -> None:
    """Say what everybody on this machine can read meanwhile."""
    from eventhub.handling.logs import get_logger

    better = "EVENTHUB_KEY" if name == "key" else f"EVENTHUB_{name.upper()}"
    passwords = " or a password file (PGPASSFILE)" if name == "db" else ""
    get_logger("eventhub.cli").warning(
        "visible_to_others", flag=f"--{name}", remedy=f"`ps` shows it to every user; use {better}{passwords}."
    )


def open_existing(settings: Settings) -> "Store":
    """The same, but a file that is not there is an error: looking must not create a database."""
    store = open_named(settings)
    if store.engine == "sqlite" and store.url != ":memory:" and not Path(store.url).exists():
        raise StoreUnavailable(
            f"There is no database at {store.url}. Name another with --db or EVENTHUB_DB, "
            "or create it with `eventhub migrate`."
        )
    return store


def with_store(common: Common | None, work: Callable[["Store"], Awaitable[R]]) -> R:
    """Open the store that a command is about, do the work, close it again."""

    async def run() -> R:
        async with open_existing((common or Common()).load_for_database().settings) as store:
            return await work(store)

    return asyncio.run(run())
