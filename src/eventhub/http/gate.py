"""Who may come in: the checks that every request passes before anybody reads its body.

size of URL and headers → host → origin → key → scope → rate
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from eventhub.core.scopes import READ
from eventhub.http.operations import Operation
from eventhub.http.peer import PEER, Peer
from eventhub.http.problems import Problem
from eventhub.http.sessions import has_cookie

if TYPE_CHECKING:
    from eventhub.http.service import Service
    from eventhub.keys import Principal

__all__ = ["Gate", "is_loopback"]

LONGEST_URL: Final = 8192
LARGEST_HEADERS: Final = 32 * 1024
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
PASSED_ON: Final = re.compile(
    rb"forwarded|via|cdn-loop|client-ip|true-client-ip|max-forwards"
    rb"|x-(forwarded|original|real|client|cluster|remote|envoy|amzn|azure|arr|appengine|vercel|nginx|proxy).*"
    rb"|(cf|fly|fastly|akamai|do|wl-proxy|proxy)-.*"
)
"""What proxies add: then the neighbour that we see is not the one who asks."""
OLD_HTTP: Final = "1.0"
"""In which a proxy that adds nothing passes requests on by default; what people use speaks 1.1."""
NO_KEY: Final = "Send a valid API key: Authorization: Bearer eh_…."
FIRST_KEY: Final = (
    "There is no API key yet, and without one only the hub's own user may ask, from this machine and through no proxy. "
    "Make the first key where the hub runs: eventhub keys create admin --scopes admin. "
    "Send it as Authorization: Bearer eh_…"
)
ONCE: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-site",
        b"x-api-key",
        b"x-forwarded-proto",
        b"x-idempotency-key",
    }
)
"""Headers that decide something: of two, another reader might take the other."""
OWN_PAGES: Final = frozenset({b"none", b"same-origin"})
"""Whose requests a browser says it makes: the user's own, or those of a page of ours."""


def is_loopback(address: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Gate:
    """The checks of one server; what they need to know is fixed when it starts."""

    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self._on_loopback = is_loopback(settings.host)
        named = {name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip()}
        self._may_have_owner = self._on_loopback and not named
        self._hosts = named | LOOPBACK_NAMES | {settings.host.lower()} if self._on_loopback or named else None

    def check_size(self, scope: Any) -> dict[bytes, bytes]:
        """The headers by name, if they and the URL are not too large."""
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_URL:
            raise Problem(414, "url-too-long", f"The URL is longer than {LONGEST_URL:,} bytes. Use a body instead.")
        size = 0
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            headers[name] = value if name not in headers else _joined(name, headers[name], value)
        if size > LARGEST_HEADERS:
            raise Problem(431, "headers-too-large", f"The headers have more than {LARGEST_HEADERS:,} bytes.")
        return headers

    def check_place(self, headers: dict[bytes, bytes], *, writes: bool) -> None:
        """The Host that was meant is this server, and no page from elsewhere makes a browser write here."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and _name(host) not in self._hosts:
            raise Problem(
                421,
                "unknown-host",
                f"This server is not {host[:100]!r}. Call it by its address, or name the host in allowed_hosts.",
            )
        if writes:
            origin = headers.get(b"origin")
            foreign = origin is not None and _place(origin.decode("latin-1")) != host
            if foreign or headers.get(b"sec-fetch-site", b"none") not in OWN_PAGES:
                raise Problem(403, "foreign-origin", "Pages of another origin may not change anything here.")

    async def admit(self, operation: Operation, headers: dict[bytes, bytes], scope: Any, *, writes: bool) -> Principal:
        """Who asks, if the key is good, its scope allows the operation and its rate is not used up."""
        service = self._service
        if operation.scope is None:
            return service.nobody
        principal = await self._principal(
            headers, scope, unseen=writes and not operation.streams and _says_no_place(headers)
        )
        if principal is None:
            if b"authorization" in headers or b"x-api-key" in headers:
                service.refuse_key(scope.get("client"), headers, how="request")
            raise Problem(401, "unauthorized", FIRST_KEY if await service.keys.keyless() else NO_KEY)
        if operation.scope and not principal.scopes.allows(operation.scope):
            raise Problem(403, "forbidden", f"This key lacks the scope {operation.scope!r}.")
        if operation.scope == READ and not operation.in_part and not principal.scopes.reads_all:
            raise Problem(403, "forbidden", "This key may read some events only, and this route tells of all.")
        wait = service.buckets.take(principal.id)
        if wait:
            raise Problem(429, "rate-limit", "Too many requests with this key. Slow down.", retry_after=wait)
        return principal

    async def recognise(self, headers: dict[bytes, bytes], scope: Any) -> Principal | None:
        """Whoever is still watching, as they were let in; None when they would not be let in any more."""
        return await self._principal(headers, scope, unseen=False)

    async def _principal(self, headers: dict[bytes, bytes], scope: Any, *, unseen: bool) -> Principal | None:
        """Whose key or session it is. ``unseen`` is a write of which nobody knows which page makes it."""
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        kind, _, text = authorization.partition(" ")
        if kind.lower() != "bearer":
            text = headers.get(b"x-api-key", b"").decode("latin-1")
        if not text and not authorization and await self._service.keys.keyless() and self._is_owner(headers, scope):
            return self._service.owner
        if not text and not authorization and has_cookie(headers):
            if unseen:
                raise Problem(
                    403, "foreign-origin", "With a cookie, a change needs the Origin of the page that makes it."
                )
            return await self._service.sessions.principal(headers)
        return await self._service.keys.verify(text.strip())

    def _is_owner(self, headers: dict[bytes, bytes], scope: Any) -> bool:
        """Whether the hub's own user asks, on this machine and directly, for this machine."""
        peer: Peer | None = scope.get(PEER)
        return (
            self._may_have_owner
            and peer is not None
            and _is_local(scope.get("client"))
            and is_loopback(_name(headers.get(b"host", b"").decode("latin-1").lower()))
            and scope["http_version"] != OLD_HTTP
            and not any(PASSED_ON.fullmatch(name) for name in headers)
            and peer.is_own_user
        )


def _joined(name: bytes, first: bytes, other: bytes) -> bytes:
    """A header that is there twice, as one; where only one can be meant, nobody guesses which."""
    if name in ONCE:
        raise Problem(400, "duplicate-header", f"The header {name.decode('latin-1')} is there twice. Send it once.")
    return first + (b"; " if name == b"cookie" else b", ") + other


def accepts(headers: dict[bytes, bytes], gives: str) -> bool:
    """Whether the client takes what the operation gives; problems are given whatever it takes."""
    wanted = headers.get(b"accept")
    if wanted is None or gives == "*/*":
        return True
    main = gives.partition("/")[0]
    for part in wanted.decode("latin-1").lower().split(","):
        kind, *parameters = [piece.strip() for piece in part.split(";")]
        refused = any(p.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for p in parameters)
        if not refused and kind in ("*/*", f"{main}/*", gives, ""):
            return True
    return False


def _says_no_place(headers: dict[bytes, bytes]) -> bool:
    """Whether nothing tells which page a request comes from; every browser says so of its writes."""
    return b"origin" not in headers and b"sec-fetch-site" not in headers


def _place(origin: str) -> str:
    """Host and port of an origin; nothing when it is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The host without its port: ``[::1]:8080`` → ``::1``."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_local(client: Any) -> bool:
    return client is not None and is_loopback(client[0])
