"""The hub in one object: publish, subscribe by webhook, and the work behind it in this process.

async with Hub("app.db", allow_private=["127.0.0.0/8"]) as hub:
    subscriber, secret = await hub.subscribers.create(Subscriber(name="billing", url="https://…"))
    await hub.publish("invoice.paid", {"id": 7})
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from eventhub.hub.crew import ROLES, Crew, CrewSettings
from eventhub.hub.destinations import Destinations
from eventhub.hub.numbers import Numbers
from eventhub.hub.sealing import Vault
from eventhub.hub.subscribers import SubscriberBook
from eventhub.secret_file import SIZE, read_or_create
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.values import NewEvent

__all__ = ["Hub"]

SECRET_FILE: Final = "eventhub.secret"  # noqa: S105 - the name of a file


class Hub:
    """Broadcasts to webhook subscribers.

    ``target`` is a path or URL, which the hub opens and closes, or a ``Store``, which stays its owner's.

    - ``secret``: what webhook secrets are encrypted under: a file, made when there is none, or 32 bytes. By default
      ``eventhub.secret`` beside an SQLite file, else in the working directory; `eventhub serve` uses the same.
    - ``allow_private``: private networks that webhooks may go to, such as ``["127.0.0.0/8"]``.
    - ``roles``: what this process does beside publishing; others may do the rest, or the same.
    - ``queue``: the queue that events are published in, which is also that of idempotency keys.
    """

    def __init__(
        self,
        target: Store | str | os.PathLike[str],
        *,
        secret: bytes | str | os.PathLike[str] | None = None,
        allow_private: Sequence[str] = (),
        roles: Iterable[str] = ROLES,
        queue: str = "work",
        settings: CrewSettings = CrewSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._owns_store = not isinstance(target, Store)
        self.store: Store = target if isinstance(target, Store) else open_store(target)
        destinations = Destinations.parse(allow_private)
        vault = Vault(_secret_of(self.store, secret))
        self.subscribers = SubscriberBook(self.store, vault, destinations, queue=queue)
        self._composer = Composer(queue)
        self._crew = Crew(
            self.store, self.subscribers, destinations, queue=queue, roles=frozenset(roles), settings=settings
        )

    @property
    def numbers(self) -> Numbers:
        """What this process has done for the hub."""
        return self._crew.numbers

    async def start(self) -> Self:
        await self.store.open()
        await self._crew.start()
        return self

    async def stop(self) -> None:
        """End what is under way, then let go of the store if it was opened here."""
        await self._crew.stop()
        if self._owns_store:
            await self.store.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def publish(
        self,
        type: str,  # noqa: A002
        payload: Any,
        *,
        to: Sequence[int] | None = None,
        connection: Any = None,
        **details: Any,
    ) -> int:
        """Store a broadcast and return its id after the commit; its messages follow.

        Details are ``metadata``, ``ordering_key``, ``idempotency_key``, ``delay``, ``deliver_at``, and ``tags``, with
        which it is also work for one worker. ``to`` names subscribers by id: only they get it, whatever they want.
        With ``connection`` it joins your own transaction.
        """
        event = self._broadcast(self._composer.one(type, payload, details), to)
        (published,) = await self.store.publish([event], connection=connection)
        return published.id

    async def publish_many(self, events: Iterable[Mapping[str, Any]]) -> list[int]:
        """Store many broadcasts in one commit, all or none; each is a mapping with the arguments of ``publish``."""
        several = [self._broadcast(event, None) for event in self._composer.many(events)]
        return [published.id for published in await self.store.publish(several)]

    def _broadcast(self, event: NewEvent, to: Sequence[int] | None) -> NewEvent:
        event.work = bool(event.route.tags)
        event.broadcast = True
        event.targets = None if to is None else tuple(to)
        return event


def _secret_of(store: Store, given: bytes | str | os.PathLike[str] | None) -> bytes:
    if isinstance(given, bytes):
        return given
    if given is not None:
        return read_or_create(Path(given))
    if store.engine == "sqlite" and store.url == ":memory:":
        return secrets.token_bytes(SIZE)
    folder = Path(store.url).absolute().parent if store.engine == "sqlite" else Path.cwd()
    return read_or_create(folder / SECRET_FILE)
