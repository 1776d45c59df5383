"""``eventhub keys``: who may use the server, and for what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from cyclopts import App, Parameter

from eventhub.cli.options import Common, flag, open_existing, open_named, with_store
from eventhub.cli.output import console, document, moment, plain, records, table
from eventhub.cli.times import length
from eventhub.errors import InvalidKeyError, KeyNotFound, SettingsError

if TYPE_CHECKING:
    from eventhub.keys import KeyRing
    from eventhub.store import Store
    from eventhub.store.values import ApiKey

__all__ = ["app"]

app = App(name="keys")

R = TypeVar("R")
KeyId = Annotated[str, Parameter(name="ID", help="The id of the key, as `eventhub keys list` shows it.")]
_STYLES: Final = {"live": "green", "expired": "yellow", "revoked": "red"}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WithSecret(Common):
    """Options of commands that make a key."""

    secret_file: Annotated[str | None, flag("secret_file")] = None


@app.command(name="create")
def create_key(
    name: Annotated[str, Parameter(name="NAME", help="Whose key it is, such as mailer.")],
    /,
    *,
    scopes: Annotated[
        str,
        Parameter(
            help="With commas: publish, work, read, metrics, admin; in part: publish:order.* (types), publish:#email "
            "(tags), work:email, read:order.*, read:#email."
        ),
    ],
    expires: Annotated[str | None, Parameter(help="How long it lives, such as 90d or 12h; else for ever.")] = None,
    common: WithSecret | None = None,
) -> None:
    """Make a key and show it, this one time."""
    from eventhub.core.scopes import Scopes

    wanted = [part.strip() for part in scopes.split(",")]
    end = None if expires is None else _from_now(length("expires", expires))
    try:
        Scopes.parse(wanted)  # before a database is made for nothing
        key, text = _with_ring(common, lambda ring: ring.create(name, wanted, end), open_named)
    except InvalidKeyError as error:
        raise SettingsError(str(error)) from None
    _show_made(key, text, common)


@app.command(name="list")
def list_keys(*, common: Common | None = None) -> None:
    """List all keys, those that have ended too; never what opens the door."""
    keys = with_store(common, lambda store: store.keys())
    if common and common.json:
        document({"keys": [_facts(key) for key in keys]})
        return
    out = console()
    if not keys:
        out.print("No keys: whoever is on this machine may do everything, and the server listens to nobody else.")
        return
    rows = table("id", "name", "scopes", "state", "created", "expires", "last used")
    for key in keys:
        state = _state(key)
        rows.add_row(
            key.id,
            plain(key.name),
            plain(", ".join(key.scopes)),
            f"[{_STYLES[state]}]{state}[/]",
            moment(key.created_at),
            moment(key.expires_at),
            moment(key.last_used_at),
        )
    out.print(rows)


@app.command(name="revoke")
def revoke_key(key_id: KeyId, /, *, common: Common | None = None) -> None:
    """End a key for good; running servers refuse it within two seconds."""

    async def work(store: Store) -> ApiKey:
        await store.revoke_key(key_id)
        key = await store.key(key_id)
        if key is None:
            raise KeyNotFound(f"There is no API key with the id {key_id[:40]!r}; `eventhub keys list` shows them all.")
        return key

    key = with_store(common, work)
    if common and common.json:
        document(_facts(key))
    else:
        console().print(plain(f"Revoked: {key.id} ({key.name}). Running servers refuse it within two seconds."))


@app.command(name="rotate")
def rotate_key(
    key_id: KeyId,
    /,
    *,
    overlap: Annotated[str, Parameter(help="How long the old key goes on, such as 24h; 0s ends it now.")] = "24h",
    expires: Annotated[
        str | None, Parameter(help="How long the new key lives; else as long as the old one was given.")
    ] = None,
    common: WithSecret | None = None,
) -> None:
    """Make a key with the same name and scopes, and let the old one end after the overlap."""
    lasting = length("overlap", overlap)
    end = None if expires is None else _from_now(length("expires", expires))
    key, text = _with_ring(common, lambda ring: ring.rotate(key_id, lasting, expires_at=end), open_existing)
    _show_made(key, text, common)


def _with_ring(common: WithSecret | None, work: Callable[[KeyRing], Awaitable[R]], opened: Callable[..., Store]) -> R:
    from eventhub.keys import KeyRing
    from eventhub.secret_file import locate

    async def run() -> R:
        loaded = (common or WithSecret()).load_for_database()
        async with opened(loaded.settings) as store:
            return await work(await KeyRing.open(store, locate(loaded, store)))

    return asyncio.run(run())


def _from_now(lasting: timedelta) -> datetime:
    try:
        return datetime.now(UTC) + lasting
    except OverflowError:
        raise SettingsError("--expires lies beyond the year 9999; leave it out for a key that never expires.") from None


def _state(key: ApiKey) -> str:
    from eventhub.keys import is_live

    if is_live(key, datetime.now(UTC)):
        return "live"
    return "expired" if key.revoked_at is None else "revoked"


def _facts(key: ApiKey) -> dict[str, Any]:
    """A key as it may be shown."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "state": _state(key),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
        "rotated_from": key.rotated_from,
    }


def _show_made(key: ApiKey, text: str, common: Common | None) -> None:
    if common and common.json:
        document({**_facts(key), "key": text})
        return
    out = console()
    out.print(
        records(
            [
                ("id", key.id),
                ("name", plain(key.name)),
                ("scopes", plain(", ".join(key.scopes))),
                ("expires", moment(key.expires_at) or "never"),
                ("rotated from", plain(key.rotated_from)),
            ]
        )
    )
    out.print(f"\n{text}\n", soft_wrap=True)
    out.print("Keep it now: it is shown this one time and stored nowhere. Send it as: Authorization: Bearer <key>")
