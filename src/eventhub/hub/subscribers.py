"""The book of subscribers: made, read, changed, paused, removed; their secrets are kept sealed and shown once.

document    what anybody may read; the values of secret headers are *** in it
sealed      those values, and the signing secrets: the current one first, earlier ones until their overlap ends
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.core.retry import RetryPolicy
from eventhub.core.signing import parse_secret, secret_text
from eventhub.core.subscribers import Subscriber
from eventhub.errors import InvalidSubscriberError, SettingsError, SubscriberChanged, SubscriberNotFound
from eventhub.handling.logs import get_logger
from eventhub.hub.credentials import Credentials, SigningSecret, new_secret, origin, part
from eventhub.hub.destinations import Destinations
from eventhub.hub.notices import Notices
from eventhub.hub.sealing import Vault
from eventhub.store.audit import Act
from eventhub.store.composing import Composer
from eventhub.store.messages import SubscriberRow, consumer_of, routes_of
from eventhub.store.values import Route

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["ReadySubscriber", "SubscriberBook", "SubscriberView"]

log = get_logger("eventhub.hub")

LONGEST_REASON: Final = 1000
MOST_REMEMBERED: Final = 10_000
TRIES: Final = 20
SWITCHED_OFF: Final = "An operator switched it off."

Change = Callable[[Subscriber, Credentials], tuple[Subscriber, Credentials]]


class SubscriberView(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber as people see it; secret header values are hidden."""

    id: int
    subscriber: Subscriber
    status: str
    reason: str | None
    circuit: str
    circuit_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    secrets: int
    """How many signing secrets are live: two and more during a rotation."""


class ReadySubscriber(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber as a dispatcher needs it: with its secrets, the current one first, and headers in small letters."""

    id: int
    subscriber: Subscriber
    policy: RetryPolicy
    secrets: tuple[bytes, ...]
    headers: dict[str, str]
    routes: tuple[Route, Route]

    def __repr__(self) -> str:
        return f"<ReadySubscriber {self.id}, {self.subscriber.name!r}>"  # its secrets must not get into a log


class _Known(msgspec.Struct, frozen=True):
    """A row as it was opened last."""

    document: str
    sealed: bytes | None
    subscriber: Subscriber
    credentials: Credentials
    headers: dict[str, str]

    def __repr__(self) -> str:
        return f"<Known {self.subscriber.name!r}>"


class SubscriberBook:
    """The subscribers of one store. ``queue`` is where news about them is published."""

    def __init__(self, store: Store, vault: Vault, destinations: Destinations, *, queue: str = "work") -> None:
        self._store, self._vault, self._destinations = store, vault, destinations
        self._notices = Notices(store, Composer(queue))
        self._known: dict[int, _Known] = {}
        self._complained: dict[int, tuple[str, str, bytes | None]] = {}

    async def create(self, subscriber: Subscriber, secret: str | None = None) -> tuple[SubscriberView, str]:
        """Keep a new subscriber; its signing secret, which is made unless it is given, cannot be read again."""
        key = new_secret() if secret is None else secret_text(parse_secret(secret))
        self._destinations.check_url(subscriber.url)
        shown, hidden = part(subscriber, {})
        number, now = await self._store.next_id(), await self._store.now()
        row = SubscriberRow(
            id=number,
            name=subscriber.name,
            document=_text(shown),
            sealed=self._seal(number, Credentials((SigningSecret(key),), hidden)),
            created_at=now,
            updated_at=now,
        )
        return self._view(await self._store.add_subscriber(row), now), key

    async def get(self, subscriber_id: int) -> SubscriberView:
        return self._view(await self._row(subscriber_id), await self._store.now())

    async def find(self, name: str) -> SubscriberView:
        """By name; a number is an id, for no name is one."""
        if name.isascii() and name.isdecimal():
            return await self.get(int(name[:20]))
        _, rows = await self._store.subscribers()
        for row in rows:
            if row.name == name:
                return self._view(row, await self._store.now())
        raise SubscriberNotFound(f"There is no subscriber named {name[:100]!r}.")

    async def list(self) -> builtins.list[SubscriberView]:
        """All, by name."""
        _, rows = await self._store.subscribers()
        now = await self._store.now()
        return [self._view(row, now) for row in rows]

    async def update(
        self, subscriber_id: int, changes: Mapping[str, Any], expected_version: int | None = None
    ) -> SubscriberView:
        """Replace these fields; a secret header given as *** stays as it was, while the host is the same."""

        def change(current: Subscriber, credentials: Credentials) -> tuple[Subscriber, Credentials]:
            wanted = Subscriber.parse({**msgspec.structs.asdict(current), **changes})
            self._destinations.check_url(wanted.url)
            same = origin(wanted.url) == origin(current.url)
            shown, hidden = part(wanted, credentials.headers, kept=same)
            return shown, msgspec.structs.replace(credentials, headers=hidden)

        act = Act("subscriber.update", f"subscriber:{subscriber_id}", {"changed": sorted(changes)})
        return await self._change(subscriber_id, change, expected_version, act)

    async def rotate_secret(self, subscriber_id: int, overlap: timedelta, secret: str | None = None) -> str:
        """A new signing secret; the earlier ones sign beside it for the overlap."""
        key = new_secret() if secret is None else secret_text(parse_secret(secret))
        now = await self._store.now()
        await self._change(
            subscriber_id,
            lambda current, credentials: (current, credentials.rotated(key, overlap=overlap, now=now)),
            None,
            Act("secret.rotate", f"subscriber:{subscriber_id}", {"overlap_seconds": overlap.total_seconds()}),
        )
        return key

    async def remove(self, subscriber_id: int, by: str) -> int:
        """Forget it and cancel what is open for it; how many messages that were."""
        cancelled = await self._store.remove_subscriber(subscriber_id, by=by)
        if cancelled is None:
            raise _unknown(subscriber_id)
        self._known.pop(subscriber_id, None)
        return cancelled

    async def enable(self, subscriber_id: int, reason: str | None = None) -> SubscriberView:
        """Active again, whatever it was."""
        return await self._set(subscriber_id, "active", {"paused", "disabled"}, reason)

    async def resume(self, subscriber_id: int, reason: str | None = None) -> SubscriberView:
        """Active again after a pause; one that is disabled must be enabled."""
        return await self._set(subscriber_id, "active", {"paused"}, reason)

    async def pause(self, subscriber_id: int, reason: str | None = None) -> SubscriberView:
        """Hold its messages for a while."""
        return await self._set(subscriber_id, "paused", {"active"}, reason)

    async def disable(self, subscriber_id: int, reason: str | None = None) -> SubscriberView:
        """Hold its messages until it is enabled, and tell whoever listens for ``hub.subscriber.disabled``."""
        row = await self._row(subscriber_id)
        await self._notices.disable(row, _checked(reason) or SWITCHED_OFF)
        return await self.get(subscriber_id)

    def ready(self, row: SubscriberRow, now: datetime) -> ReadySubscriber | None:
        """What a dispatcher needs to send to it at this time; None, with an error in the log, if it is not usable."""
        try:
            known = self._opened(row)
        except (SettingsError, InvalidSubscriberError) as error:
            self._complain(row, "subscriber_not_usable", error=str(error))
            return None
        keys = known.credentials.live(now)
        if not keys:
            self._complain(row, "subscriber_without_secret")
            return None
        self._complained.pop(row.id, None)
        return ReadySubscriber(
            id=row.id,
            subscriber=known.subscriber,
            policy=known.subscriber.policy,
            secrets=keys,
            headers=known.headers,
            routes=routes_of(row.id),
        )

    def _complain(self, row: SubscriberRow, what: str, **more: str) -> None:
        """Once, until the subscriber is changed: dispatchers ask for it every few seconds."""
        said = what, row.document, row.sealed
        if self._complained.get(row.id) != said:
            self._complained[row.id] = said
            log.error(what, subscriber=row.name, id=row.id, **more)

    def _opened(self, row: SubscriberRow) -> _Known:
        """The row's parts, as long as it is the same remembered from last time."""
        known = self._known.get(row.id)
        if known is None or known.document != row.document or known.sealed != row.sealed:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            subscriber, credentials = Subscriber.parse(row.document), self._open(row)
            headers = {name.lower(): credentials.headers.get(name, value) for name, value in subscriber.headers.items()}
            known = self._known[row.id] = _Known(row.document, row.sealed, subscriber, credentials, headers)
        return known

    def _view(self, row: SubscriberRow, now: datetime) -> SubscriberView:
        try:
            live = len(self._opened(row).credentials.live(now))
        except SettingsError:  # it can still be looked at, and removed
            live = 0
        return SubscriberView(
            id=row.id,
            subscriber=Subscriber.parse(row.document),
            status=row.status,
            reason=row.reason,
            circuit=row.circuit,
            circuit_until=row.circuit_until,
            version=row.version,
            created_at=row.created_at,
            updated_at=row.updated_at,
            secrets=live,
        )

    async def _row(self, subscriber_id: int) -> SubscriberRow:
        row = await self._store.subscriber(subscriber_id)
        if row is None:
            raise _unknown(subscriber_id)
        return row

    async def _change(
        self, subscriber_id: int, change: Change, expected_version: int | None, act: Act
    ) -> SubscriberView:
        """Read, change and write; again if somebody else wrote in between, unless a version was expected."""
        for _ in range(TRIES):
            row = await self._row(subscriber_id)
            if expected_version is not None and row.version != expected_version:
                raise SubscriberChanged(
                    f"Subscriber {subscriber_id} has version {row.version}, not {expected_version}; read it again."
                )
            before = Subscriber.parse(row.document)
            shown, credentials = change(before, self._open(row))
            limit = shown.max_attempts if shown.max_attempts != before.max_attempts else None
            done = await self._store.change_subscriber(
                subscriber_id,
                expected_version=row.version,
                name=shown.name,
                document=_text(shown),
                sealed=self._seal(subscriber_id, credentials),
                max_attempts=limit,
                act=act,
            )
            if done is not None:
                return self._view(done, await self._store.now())
        raise SubscriberChanged(f"Subscriber {subscriber_id} is being changed again and again. Try once more.")

    async def _set(self, subscriber_id: int, status: str, before: set[str], reason: str | None) -> SubscriberView:
        """Give it a status that may follow on these; to have it already is as good."""
        why = _checked(reason)
        row = await self._row(subscriber_id)
        if row.status in before:
            await self._store.set_status(subscriber_id, status, reason=why, expect=frozenset(before))
            row = await self._row(subscriber_id)
        if row.status != status:
            because = f" ({row.reason})" if row.reason else ""
            raise SubscriberChanged(
                f"Subscriber {subscriber_id} is {row.status}{because}; it cannot become {status} before it is enabled."
            )
        return self._view(row, await self._store.now())

    def _open(self, row: SubscriberRow) -> Credentials:
        if row.sealed is None:
            return Credentials()
        return _credentials.decode(self._vault.open(row.sealed, about=consumer_of(row.id)))

    def _seal(self, subscriber_id: int, credentials: Credentials) -> bytes:
        return self._vault.seal(msgspec.json.encode(credentials), about=consumer_of(subscriber_id))


_credentials = msgspec.json.Decoder(Credentials)


def _text(subscriber: Subscriber) -> str:
    return msgspec.json.encode(subscriber).decode()


def _checked(reason: str | None) -> str | None:
    if reason is not None and (not isinstance(reason, str) or len(reason) > LONGEST_REASON or "\x00" in reason):
        raise InvalidSubscriberError(
            f"The reason must be a text of at most {LONGEST_REASON:,} characters.", field="reason"
        )
    return reason or None


def _unknown(subscriber_id: int) -> SubscriberNotFound:
    return SubscriberNotFound(f"There is no subscriber {subscriber_id}; it may have been removed.")
