"""The store and the book of subscribers behind a command, and the one subscriber that it names."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from eventhub.cli.options import open_existing, open_named
from eventhub.cli.subscribers.options import WithSecret
from eventhub.errors import SettingsError, SubscriberNotFound

if TYPE_CHECKING:
    from eventhub.hub.sealing import Vault
    from eventhub.hub.subscribers import SubscriberBook
    from eventhub.store import Store
    from eventhub.store.messages import SubscriberRow

__all__ = ["find_row", "with_book"]

R = TypeVar("R")
Work = Callable[["Store", "SubscriberBook"], Awaitable[R]]


def with_book(common: WithSecret | None, work: Work[R], *, seals: bool = False, create: bool = False) -> R:
    """Open the store and the book in it, do the work, close it again.

    ``seals``: the work writes secrets, so the right secret file must be there. ``create`` makes what is missing.
    """
    try:
        from eventhub.hub.destinations import Destinations
        from eventhub.hub.subscribers import SubscriberBook
    except ImportError as error:
        raise SettingsError("Subscribers need more packages: pip install 'eventhub[server]'.") from error
    from eventhub.secret_file import locate

    async def run() -> R:
        loaded = (common or WithSecret()).load_for_database()
        destinations = Destinations(loaded.settings.private_networks)
        async with (open_named if create else open_existing)(loaded.settings) as store:
            path = locate(loaded, store)
            vault = await _sealing_vault(store, path) if seals else _looking_vault(path)
            return await work(store, SubscriberBook(store, vault, destinations, queue=loaded.settings.work_queue))

    return asyncio.run(run())


def _looking_vault(path: Path) -> Vault:
    """Who only looks, or pauses, needs no secret: without it all is shown but how many secrets are live."""
    from eventhub.hub.sealing import Vault
    from eventhub.secret_file import SIZE, read

    return Vault(read(path) if path.exists() else secrets.token_bytes(SIZE))


async def _sealing_vault(store: Store, path: Path) -> Vault:
    """Under the secret that the server has; one that does not fit what is sealed already is refused."""
    from eventhub.hub.sealing import Vault
    from eventhub.keys import KeyRing
    from eventhub.secret_file import read
    from eventhub.store.messages import consumer_of

    _, rows = await store.subscribers()
    sealed = [row for row in rows if row.sealed is not None]
    if sealed:
        _check_there(path)
    await KeyRing.open(store, path)  # makes the file, unless there are keys that need another
    vault = Vault(read(path))
    for row in sealed[:1]:
        vault.open(row.sealed or b"", about=consumer_of(row.id))
    return vault


def _check_there(path: Path) -> None:
    if not path.exists():
        raise SettingsError(
            f"There is no secret file at {path}, but there are subscribers whose secrets were sealed under one. Copy "
            "it from where the server runs, or name it with EVENTHUB_SECRET_FILE."
        )


async def find_row(store: Store, who: str) -> SubscriberRow:
    """A subscriber by its name or id; names are never numbers."""
    _, rows = await store.subscribers()
    for row in rows:
        if who in (row.name, str(row.id)):
            return row
    raise SubscriberNotFound(f"There is no subscriber {who[:100]!r}; `eventhub subscribers list` shows them all.")
