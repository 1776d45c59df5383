"""API keys, made and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from eventhub.http.bodies.basics import Answered, Asked, Time

__all__ = [
    "CreatedKey",
    "KeyBody",
    "KeyList",
    "NewKeyBody",
]


class NewKeyBody(Asked):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[
        list[str],
        Meta(min_length=1, max_length=50, description="publish, work, read, metrics, admin; publish:order.*, …"),
    ]
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class KeyBody(Answered):
    """An API key as it may be shown: never with its secret."""

    id: str
    name: str
    scopes: list[str]
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class CreatedKey(KeyBody):
    """A new key: the only time that it is shown whole."""

    key: str


class KeyList(Answered):
    keys: list[KeyBody]
