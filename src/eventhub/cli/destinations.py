"""Where events are published to: a hub over HTTP, or the database itself."""

from __future__ import annotations

import math
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from eventhub.cli.event_files import Batch, Sent, as_mapping
from eventhub.cli.options import open_existing
from eventhub.core.scopes import JOB

if TYPE_CHECKING:
    from eventhub.config import Settings
    from eventhub.errors import ServerUnavailable
    from eventhub.store.values import NewEvent

__all__ = ["Destination", "ToDatabase", "ToHub"]

PATIENCE: Final = 1.0
"""Seconds that a hub may be away before anybody is told."""


class Destination(Protocol):
    """Open while it is entered. An event is a mapping with the members that ``Client.publish`` takes."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def one(self, event: dict[str, Any]) -> int:
        """Publish an event; returns its id."""
        ...

    async def many(self, batch: Batch) -> Sent:
        """Publish all of them or none."""
        ...


class ToHub:
    """Over HTTP. Who waits for a hub that is away is told so, once, unless it is a program (``quiet``)."""

    def __init__(self, settings: Settings, *, key: str | None = None, quiet: bool = False) -> None:
        self._settings, self._key = settings, key
        self._quiet = quiet
        self._away_since: float | None = None

    async def __aenter__(self) -> Self:
        from eventhub.client import Client

        self._client = Client(self._settings.url, key=self._key)
        if not self._quiet:
            self._client._transport.waiting = self._tell  # noqa: SLF001 - nobody else has a use for it
        return self

    def _tell(self, error: ServerUnavailable, left: float) -> None:
        if self._away_since is None:
            self._away_since = monotonic()
        elif monotonic() - self._away_since > PATIENCE:
            self._away_since = math.inf
            print(f"eventhub: {error} Trying again for {left:.0f} s.", file=sys.stderr, flush=True)  # noqa: T201

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def one(self, event: dict[str, Any]) -> int:
        return (await self._client.publish(**event)).id

    async def many(self, batch: Batch) -> Sent:
        made = await self._client.publish_many([as_mapping(event) for event in batch])
        return [(each.id, each.duplicate) for each in made]


class ToDatabase:
    """Events as the server would store them, or as an EventQueue of that name would."""

    def __init__(self, settings: Settings, queue: str | None) -> None:
        self._settings = settings
        self._queue = queue
        self._store = open_existing(settings)

    async def __aenter__(self) -> Self:
        await self._store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def one(self, event: dict[str, Any]) -> int:
        (published,) = await self._store.publish([self._composed(event)])
        return published.id

    async def many(self, batch: Batch) -> Sent:
        made = await self._store.publish([self._composed(as_mapping(event)) for event in batch])
        return [(each.id, each.duplicate) for each in made]

    def _composed(self, event: dict[str, Any]) -> NewEvent:
        from eventhub.store.composing import Composer

        named = {"payload": None, **event}
        kind = named.pop("event_type", None)
        named["type"] = kind or JOB
        if self._queue is not None:
            return Composer(self._queue).one(named, None, {})
        new = Composer(self._settings.work_queue, max_attempts=self._settings.max_retries).one(named, None, {})
        new.work = bool(new.route.tags)
        new.broadcast = bool(kind)
        return new
