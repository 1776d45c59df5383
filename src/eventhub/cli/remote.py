"""What commands that may speak to a hub over HTTP have in common: its address and the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from eventhub.cli.options import Common, flag
from eventhub.config import Loaded
from eventhub.errors import SettingsError

__all__ = ["Remote"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Remote(Common):
    """Options of commands that speak to a hub."""

    url: Annotated[str | None, flag("url")] = None
    key: Annotated[str | None, flag("key")] = None

    def means_http(self, loaded: Loaded) -> bool:
        """Over HTTP when an address is given, as a flag or else as a setting; --db means the database itself."""
        if self.url is not None and self.db is not None:
            raise SettingsError("Both --url and --db are given; keep one: a hub over HTTP, or its database.")
        return self.url is not None or (self.db is None and not loaded.is_default("url"))
