"""From a URL to a store: ``app.db``, ``sqlite:///app.db``, ``:memory:`` or ``postgresql://user@host/db``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from eventhub.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from eventhub.config import Settings
    from eventhub.store.contract import Store

__all__ = ["open_named", "open_store", "shown", "sqlite_path"]

_SYNCHRONOUS = ("FULL", "NORMAL", "EXTRA")


def open_store(url: str | os.PathLike[str], **options: Any) -> Store:
    """The store that the URL names. It opens itself on first use; ``await`` it to open it now.

    SQLite takes ``synchronous="FULL" | "NORMAL" | "EXTRA"``, also as a URL parameter; PostgreSQL ``pool_size=10``
    and ``listen_url``, which leads past a pooler.
    """
    text = os.fspath(url)
    scheme = text.partition("://")[0] if "://" in text else ""
    if scheme in ("postgresql", "postgres"):
        return _postgres(text, options)
    if scheme not in ("", "sqlite"):
        raise SettingsError(
            f"{shown(text)} is not a store URL: give a path such as app.db, sqlite:///app.db, :memory:, "
            "or postgresql://user@host/database."
        )
    return _sqlite(text, options)


def open_named(settings: Settings) -> Store:
    """The store that the settings name, not opened yet."""
    postgres = settings.db.partition("://")[0] in ("postgres", "postgresql")
    if postgres:
        return open_store(settings.db, pool_size=settings.pool_size, listen_url=settings.listen_url or None)
    if "synchronous=" in settings.db:  # the URL is closer to the database than a setting
        return open_store(settings.db)
    return open_store(settings.db, synchronous=settings.synchronous)


def sqlite_path(url: str) -> str | None:
    """The path of the SQLite file that a URL names, or ``:memory:``; None for a database of another kind."""
    if url.startswith("sqlite:"):
        parts = urlsplit(url)
        return unquote(parts.netloc + parts.path).removeprefix("/" if "://" in url else "") or ":memory:"
    return None if "://" in url else url


def _sqlite(text: str, options: dict[str, Any]) -> Store:
    from eventhub.store.sqlite import SqliteStore

    path = sqlite_path(text)
    if text.startswith("sqlite:"):
        options = {**dict(parse_qsl(urlsplit(text).query)), **options}
    if not path:
        raise SettingsError("The path of the store is empty; give one such as app.db, or :memory:.")
    synchronous = str(options.pop("synchronous", "FULL")).upper()
    if synchronous not in _SYNCHRONOUS:
        raise SettingsError(f"synchronous is {synchronous!r}; give one of {', '.join(_SYNCHRONOUS)}.")
    _no_more(options, "synchronous")
    return SqliteStore(path, synchronous=synchronous)


def _postgres(text: str, options: dict[str, Any]) -> Store:
    try:
        from eventhub.store.postgres import PostgresStore
    except ImportError as error:
        raise StoreError("PostgreSQL needs its driver: pip install 'eventhub[postgres]'.") from error

    pool_size = options.pop("pool_size", 10)
    listen_url = options.pop("listen_url", None)
    _no_more(options, "pool_size and listen_url")
    return PostgresStore(text, pool_size=int(pool_size), listen_url=listen_url)


def _no_more(options: dict[str, Any], known: str) -> None:
    if options:
        raise SettingsError(f"Unknown option {', '.join(sorted(options))} for this store; it takes {known}.")


def shown(url: str) -> str:
    """The URL without its password, for messages; of one that may be cut in the wrong places, nothing is shown."""
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return url  # a path
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    further = rest.removeprefix(authority)
    if "@" in further:  # a password with a / or # in it: the parts are not what they seem
        return f"{scheme}://…"
    login, at, place = authority.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}{at}{place}{re.split('[?#]', further, maxsplit=1)[0]}"
