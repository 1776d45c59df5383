"""Sessions of browsers: a cookie that stands for an API key, and ends with it.

    <id of the key>.<when it ends, in seconds>.<HMAC of both>

The HMAC's key comes from the server's secret file, so every process of a hub takes the cookies of all others, and none
is stored anywhere. A cookie opens nothing by itself: the key that it names is looked up as keys are.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from eventhub.clock import Clock, SystemClock

if TYPE_CHECKING:
    from eventhub.keys import KeyRing, Principal

__all__ = ["Sessions", "has_cookie"]

COOKIE: Final = "eventhub_session"
LIFE: Final = timedelta(hours=12)
_PARTS: Final = 3
_LONGEST: Final = 200


class Sessions:
    """Makes cookies and reads them."""

    def __init__(self, keys: KeyRing, secret: bytes, *, clock: Clock | None = None) -> None:
        self._keys = keys
        self._secret = hmac.digest(secret, b"eventhub: sessions of browsers, 1", "sha256")
        self._clock = clock or SystemClock()

    def begin(self, key_id: str, *, secure: bool) -> bytes:
        """The ``Set-Cookie`` header for whoever has shown this key."""
        ends = int((self._clock.now() + LIFE).timestamp())
        return self._cookie(f"{key_id}.{ends}.{self._mark(key_id, str(ends))}", LIFE, secure=secure)

    def end(self, *, secure: bool) -> bytes:
        """The header that takes the cookie away."""
        return self._cookie("", timedelta(0), secure=secure)

    async def principal(self, headers: Mapping[bytes, bytes]) -> Principal | None:
        """Whose session the request belongs to; None when it has none, or one that has ended."""
        key_id, ends, mark = _parts(_value(headers))
        if not hmac.compare_digest(mark.encode("latin-1", "replace"), self._mark(key_id, ends).encode()):
            return None
        if self._clock.now().timestamp() >= int(ends):
            return None
        return await self._keys.named(key_id)

    def _mark(self, key_id: str, ends: str) -> str:
        return hmac.digest(self._secret, f"{key_id}.{ends}".encode("utf-8", "replace"), "sha256").hex()

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


def _parts(value: str) -> tuple[str, str, str]:
    """A value that is none of ours has parts that no HMAC fits."""
    parts = value[:_LONGEST].split(".")
    return (parts[0], parts[1], parts[2]) if len(parts) == _PARTS else ("", "", "")
