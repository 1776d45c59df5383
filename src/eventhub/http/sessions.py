"""Sessions of browsers: a cookie that stands for an API key, and ends with it.

    <id of the key>.<when it ends, in seconds>.<id of the session>.<HMAC of all three>

The HMAC's key comes from the server's secret file, so every process of a hub takes the cookies of all others. A cookie
opens nothing by itself: the key that it names is looked up as keys are. Stored are only the sessions that ended before
their time, when somebody signed out: at once in this process, within two seconds in others, nobody else can use them.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from eventhub.clock import Clock, SystemClock

if TYPE_CHECKING:
    from eventhub.keys import KeyRing, Principal
    from eventhub.store import Store

__all__ = ["Sessions", "has_cookie"]

COOKIE: Final = "eventhub_session"
LIFE: Final = timedelta(hours=12)
REMEMBERED: Final = 2.0
"""Seconds after which ended sessions are read anew."""
_MARGIN: Final = timedelta(hours=1)
"""By which the clocks of two processes may differ."""
_ID_BYTES: Final = 8
_PARTS: Final = 4
_LONGEST: Final = 200


class Sessions:
    """Makes cookies and reads them."""

    def __init__(
        self,
        keys: KeyRing,
        secret: bytes,
        store: Store,
        *,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._store = store
        self._secret = hmac.digest(secret, b"eventhub: sessions of browsers, 2", "sha256")
        self._clock = clock or SystemClock()
        self._monotonic = monotonic
        self._ended: set[str] = set()
        self._read_again_at = float("-inf")
        self._reading: asyncio.Task[set[str]] | None = None
        """One read for all who ask meanwhile."""

    def begin(self, key_id: str, *, secure: bool) -> bytes:
        """The ``Set-Cookie`` header for whoever has shown this key."""
        ends, session = str(int((self._clock.now() + LIFE).timestamp())), secrets.token_hex(_ID_BYTES)
        return self._cookie(f"{key_id}.{ends}.{session}.{self._mark(key_id, ends, session)}", LIFE, secure=secure)

    async def sign_out(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        """End the session that the request belongs to, for every copy of its cookie; whose it was."""
        principal = await self.principal(headers)
        if principal is not None:
            _, ends, session, _ = _parts(_value(headers))
            await self._store.end_session(
                session, ends=datetime.fromtimestamp(int(ends), UTC), forget_before=self._clock.now() - _MARGIN
            )
            self._read_again_at, self._reading = float("-inf"), None  # a read under way may not know of it
        return principal

    def end(self, *, secure: bool) -> bytes:
        """The header that takes the cookie away."""
        return self._cookie("", timedelta(0), secure=secure)

    async def principal(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        """Whose session the request belongs to; None when it has none, or one that has ended."""
        key_id, ends, session, mark = _parts(_value(headers))
        if not hmac.compare_digest(mark.encode("latin-1", "replace"), self._mark(key_id, ends, session).encode()):
            return None
        if self._clock.now().timestamp() >= int(ends) or await self._has_ended(session):
            return None
        return await self._keys.named(key_id)

    async def _has_ended(self, session: str) -> bool:
        """Nobody is let in by what was known before, while it is read anew."""
        asked_at = self._monotonic()
        if asked_at < self._read_again_at:
            return session in self._ended
        if self._reading is None:
            self._reading = asyncio.create_task(self._store.ended_sessions(), name="eventhub-ended-sessions")
            self._reading.add_done_callback(partial(self._learn, asked_at))
        return session in await asyncio.shield(self._reading)  # others wait for it too

    def _learn(self, asked_at: float, reading: asyncio.Task[set[str]]) -> None:
        failed = reading.cancelled() or reading.exception() is not None
        if self._reading is reading:
            self._reading = None
            if not failed:
                self._ended, self._read_again_at = reading.result(), asked_at + REMEMBERED

    def _mark(self, *parts: str) -> str:
        return hmac.digest(self._secret, ".".join(parts).encode("utf-8", "replace"), "sha256").hex()

    def _cookie(self, value: str, life: timedelta, *, secure: bool) -> bytes:
        parts = [f"{COOKIE}={value}", "HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={int(life.total_seconds())}"]
        return "; ".join([*parts, "Secure"] if secure else parts).encode()


def has_cookie(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes with a session, be it a good one or not."""
    return bool(_value(headers))


def _value(headers: Mapping[bytes, bytes]) -> str:
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _parts(value: str) -> tuple[str, str, str, str]:
    """A value that is none of ours has parts that no HMAC fits."""
    parts = value[:_LONGEST].split(".")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == _PARTS else ("", "", "", "")
