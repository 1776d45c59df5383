"""API keys: made, shown once, checked, rotated, revoked.

    eh_<id>_<secret>      the id finds the row; the row has an HMAC-SHA-256 of the whole text, never the text

The HMAC's key (the pepper) comes from the server's secret file, so a copy of the database alone lets nobody in.
A good key is remembered for two seconds and costs no round trip meanwhile. Every refusal costs one look into the
store and one comparison, whether the key is unknown, malformed, expired, revoked or wrong.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import re
import secrets
import string
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from eventhub.clock import Clock, SystemClock
from eventhub.core.scopes import ADMIN, Scopes
from eventhub.errors import EventHubError, InvalidKeyError, KeyNotFound, SettingsError
from eventhub.secret_file import SIZE, read, read_or_create
from eventhub.store.values import ApiKey

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["NOBODY", "OWNER", "REMEMBERED", "KeyRing", "Principal", "is_live"]

REMEMBERED: Final = 2.0
"""Seconds after which a key is read anew: so long may a key live on that another process has revoked."""
MOST_REMEMBERED: Final = 10_000
TOUCH_EVERY: Final = timedelta(minutes=1)
LONGEST_NAME: Final = 100
LONGEST_LIFE: Final = timedelta(days=3653)
"""Ten years, leap days and all."""
_ALPHABET: Final = string.ascii_letters + string.digits
_ID_LETTERS: Final = 10
_MARK_LETTERS: Final = 2
_SECRET_LETTERS: Final = 32
"""Of 62 letters each: 190 bits."""
_ID: Final = rf"[A-Za-z0-9]{{{_ID_LETTERS + _MARK_LETTERS}}}"
_TEXT: Final = re.compile(rf"eh_({_ID})_[A-Za-z0-9]{{{_SECRET_LETTERS}}}\Z")
_LONGEST_TEXT: Final = 256
_NO_ID: Final = "none"


class Principal(msgspec.Struct, frozen=True):
    """Who asks: a key's id and name, and what it may do."""

    id: str
    name: str
    scopes: Scopes

    @property
    def key_name(self) -> str | None:
        """The name of the key, which a rotation keeps; the owner of a hub without keys has none."""
        return self.name if self.id else None


OWNER: Final = Principal("", "owner", Scopes.parse([ADMIN]))
"""Whoever sits at this machine, while there is no key."""
NOBODY: Final = Principal("", "nobody", Scopes.none())


class Remembered(msgspec.Struct):
    """A key as it was read. Its ``principal`` is made when it is first let in, so that no refusal costs more by it."""

    key: ApiKey
    until: float
    principal: Principal | None = None


def is_live(key: ApiKey, now: datetime) -> bool:
    """Whether a key opens anything at this time."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


class KeyRing:
    """The keys of one store, as one process checks them. Keys expire by this machine's clock."""

    def __init__(
        self,
        store: Store,
        secret: bytes,
        *,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._pepper = hmac.digest(secret, b"eventhub: API keys, 1", "sha256")
        self._marker = hmac.digest(secret, b"eventhub: marks of API keys, 1", "sha256")
        self._clock = clock or SystemClock()
        self._monotonic = monotonic
        self._nobody = secrets.token_bytes(32)
        self._remembered: OrderedDict[str, Remembered] = OrderedDict()
        self._looks: dict[str, asyncio.Task[Remembered | None]] = {}
        self._has_keys = False
        self._keyless_until = float("-inf")
        self._touched: dict[str, datetime] = {}
        self._to_touch: dict[str, datetime] = {}
        self._touching: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, store: Store, secret: Path, *, clock: Clock | None = None) -> Self:
        """The ring under the secret in this file, which is made if it was never needed before.

        Keys that were made under another secret can never be good, and nobody would know why: that is an error.
        """
        if store.url == ":memory:":
            return cls(store, secrets.token_bytes(SIZE), clock=clock)
        now = (clock or SystemClock()).now()
        live = [key for key in await store.keys() if is_live(key, now)]
        ring = cls(store, read(secret) if live else read_or_create(secret), clock=clock)
        foreign = [key.id for key in live if not ring._is_own(key.id)]
        if foreign:
            raise SettingsError(
                f"{len(foreign)} of {len(live)} API keys, such as {foreign[0]}, were made under another secret than "
                f"that of {secret}, and can never be accepted with it. Name the right file with EVENTHUB_SECRET_FILE, "
                "or revoke them with `eventhub keys revoke ID` and make new ones."
            )
        return ring

    # --------------------------------------------------------- administering

    async def create(self, name: str, scopes: Iterable[str], expires_at: datetime | None = None) -> tuple[ApiKey, str]:
        """A new key, and its text, which is nowhere afterwards but with whoever was shown it."""
        return await self._make(name, scopes, expires_at)

    async def _make(
        self, name: str, scopes: Iterable[str], expires_at: datetime | None, rotated_from: str | None = None
    ) -> tuple[ApiKey, str]:
        now = self._clock.now()
        parsed = Scopes.parse(scopes)
        _check_name(name)
        end = None if expires_at is None else _checked_end(expires_at, now)
        key_id = self._new_id()
        text = f"eh_{key_id}_{_letters(_SECRET_LETTERS)}"
        key = ApiKey(
            id=key_id,
            name=name,
            scopes=parsed.texts,
            digest=self._digest(text),
            created_at=now,
            expires_at=end,
            rotated_from=rotated_from,
        )
        await self._store.add_key(key)
        self._has_keys = True
        return key, text

    async def list(self) -> list[ApiKey]:
        """Every key there ever was, those that have ended too."""
        return await self._store.keys()

    async def revoke(self, key_id: str) -> None:
        """End a key for good: at once in this process, within two seconds in others."""
        _check_id(key_id)
        try:
            if not await self._store.revoke_key(key_id, now=self._clock.now()):
                await self._existing(key_id)  # it was revoked before, which is as good
        finally:
            self._forget(key_id)

    async def rotate(
        self, key_id: str, overlap: timedelta, *, expires_at: datetime | None = None
    ) -> tuple[ApiKey, str]:
        """A successor with the same name and scopes; the old key lives on for the overlap.

        Unless told when to expire, the successor is given as long a life as the old key was.
        """
        if not timedelta(0) <= overlap <= LONGEST_LIFE:
            raise InvalidKeyError(f"The overlap is {overlap.total_seconds():g} s; give 0 or more, up to ten years.")
        old, now = await self._existing(key_id), self._clock.now()
        if not is_live(old, now):
            how = "expired" if old.revoked_at is None else "was revoked"
            raise InvalidKeyError(f"The key {key_id} {how} and has nothing to hand on; create a new one.")
        if expires_at is None and old.expires_at is not None:
            expires_at = now + min(old.expires_at - old.created_at, LONGEST_LIFE)
        made = await self._make(old.name, old.scopes, expires_at, rotated_from=old.id)
        end = now + overlap
        try:
            if old.expires_at is None or end < old.expires_at:
                await self._store.expire_key(key_id, end)
        finally:
            self._forget(key_id)
        return made

    # -------------------------------------------------------------- checking

    async def verify(self, text: str) -> Principal | None:
        """Whose key this is; None for any that is not good now."""
        found = _TEXT.match(text)
        key_id = found[1] if found else _NO_ID
        digest = self._digest(text)
        known = self._remembered.get(key_id)
        if known is not None and self._monotonic() < known.until:
            principal = self._admitted(known, digest)
            if principal is not None:
                return principal
        return self._admitted(await self._look(key_id), digest)

    async def named(self, key_id: str) -> Principal | None:
        """Whose key has this id, for those who have shown it before; None when it is not good any more."""
        known = self._remembered.get(key_id)
        if known is None or self._monotonic() >= known.until:
            known = await self._look(key_id)
        return None if known is None else self._let_in(known)

    async def keyless(self) -> bool:
        """Whether there is no key and never was one: keys that have ended keep the door shut."""
        if self._has_keys:
            return False
        now = self._monotonic()
        if now >= self._keyless_until:
            if await self._store.any_keys():
                self._has_keys = True
            else:
                self._keyless_until = now + REMEMBERED
        return not self._has_keys

    async def close(self) -> None:
        """Write what is still to be written about uses."""
        if self._touching is not None:
            await asyncio.wait([self._touching])

    def _admitted(self, known: Remembered | None, digest: bytes) -> Principal | None:
        right = hmac.compare_digest(digest, self._nobody if known is None else known.key.digest)
        return None if known is None or not right else self._let_in(known)

    def _let_in(self, known: Remembered) -> Principal | None:
        now = self._clock.now()
        if not is_live(known.key, now):
            return None
        if known.principal is None:
            try:
                known.principal = Principal(known.key.id, known.key.name, Scopes.parse(known.key.scopes))
            except InvalidKeyError:  # a later version knows scopes that this one does not
                return None
        self._note_use(known.key, now)
        return known.principal

    async def _look(self, key_id: str) -> Remembered | None:
        """The key as it is in the store; those who ask for the same one at once share the answer."""
        look = self._looks.get(key_id)
        if look is None:
            look = self._looks[key_id] = asyncio.create_task(self._read(key_id))
            look.add_done_callback(functools.partial(self._looked, key_id))
        return await asyncio.shield(look)

    async def _read(self, key_id: str) -> Remembered | None:
        until = self._monotonic() + REMEMBERED
        key = await self._store.key(key_id)
        if key is None:
            return None
        read = Remembered(key, until)
        # A key that was revoked while it was read is not remembered as it was before.
        if self._looks.get(key_id) is asyncio.current_task():
            self._remembered[key_id] = read
            self._remembered.move_to_end(key_id)
            if len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return read

    def _looked(self, key_id: str, look: asyncio.Task[Remembered | None]) -> None:
        if self._looks.get(key_id) is look:
            del self._looks[key_id]
        if not look.cancelled():
            look.exception()  # whoever waits for it gets it; perhaps nobody does any more

    def _forget(self, key_id: str) -> None:
        self._remembered.pop(key_id, None)
        self._looks.pop(key_id, None)

    async def _existing(self, key_id: str) -> ApiKey:
        _check_id(key_id)
        key = await self._store.key(key_id)
        if key is None:
            raise _not_found(key_id)
        return key

    # ------------------------------------------------------------------ uses

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        last = self._touched.get(key.id) or key.last_used_at
        if last is not None and now - last < TOUCH_EVERY:
            return
        self._touched[key.id] = self._to_touch[key.id] = now
        if self._touching is None:
            self._touching = asyncio.create_task(self._touch())

    async def _touch(self) -> None:
        """Write down uses, together those that came while the others were written."""
        try:
            while self._to_touch:
                batch, self._to_touch = self._to_touch, {}
                with suppress(EventHubError):  # the next use after a minute tries again
                    await self._store.touch_keys(batch)
        finally:
            self._touching = None
            now = self._clock.now()
            self._touched = {key_id: at for key_id, at in self._touched.items() if now - at < TOUCH_EVERY}

    # --------------------------------------------------------------- letters

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._pepper, text[:_LONGEST_TEXT].encode("utf-8", "surrogatepass"), "sha256")

    def _new_id(self) -> str:
        start = _letters(_ID_LETTERS)
        return start + self._mark(start)

    def _mark(self, start: str) -> str:
        """The end of an id, which tells under which secret it was made."""
        digest = hmac.digest(self._marker, start.encode(), "sha256")
        return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_MARK_LETTERS])

    def _is_own(self, key_id: str) -> bool:
        return key_id[_ID_LETTERS:] == self._mark(key_id[:_ID_LETTERS])


def _letters(number: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(number))


def _check_id(key_id: str) -> None:
    """What no key is called needs no look into the store, which may not even be able to read it."""
    if not re.fullmatch(_ID, key_id):
        raise _not_found(key_id)


def _not_found(key_id: str) -> KeyNotFound:
    return KeyNotFound(f"There is no API key with the id {key_id[:40]!r}; `eventhub keys list` shows them all.")


def _checked_end(expires_at: datetime, now: datetime) -> datetime:
    """When a key ends, in UTC: a time to come, and one that every store and clock can count to."""
    try:
        end = None if expires_at.tzinfo is None else expires_at.astimezone(UTC)
    except OverflowError:
        end = None
    if end is None or not now < end <= now + LONGEST_LIFE:
        raise InvalidKeyError(
            f"The key would expire at {expires_at.isoformat()}; give a time to come, with zone, "
            "at most ten years ahead, or none."
        )
    return end


def _check_name(name: str) -> None:
    if not (1 <= len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name):
        raise InvalidKeyError(
            f"The key's name {name[:40]!r} is not usable: give 1 to {LONGEST_NAME} printable characters, without "
            "blanks around them."
        )
