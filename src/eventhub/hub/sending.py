"""Sending one webhook: a request goes out, and whatever the network does comes back as a value.

No redirects, no proxies, no cookies, no decompression; the address that is dialled is vetted every time; the time is
bounded from the first lookup to the last byte. A request goes out once: when a kept connection turns out to be broken,
the receiver may have it all the same, so that is an attempt like any other, and those that waited beside it are closed.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohappyeyeballs import start_connection

from eventhub._version import __version__
from eventhub.core.verdicts import BLOCKED, NETWORK, TIMEOUT, Answer
from eventhub.errors import BlockedDestination
from eventhub.handling.logs import get_logger
from eventhub.hub.connections import BadAnswer, Connection, Received
from eventhub.hub.destinations import AddressInfo, Destinations
from eventhub.hub.pool import Origin, Pool
from eventhub.hub.resolving import Lookup, Resolver

__all__ = ["UNSENT", "Sender", "WebhookAnswer", "WebhookRequest"]

log = get_logger("eventhub.hub")

UNSENT: Final = "unsent"
"""The failure of a request that was not sent, because its claim would have ended under way."""
SECOND_ADDRESS_AFTER: Final = 0.25
MOST_PLACES: Final = 10_000
LONGEST_ERROR: Final = 300
_USER_AGENT: Final = f"user-agent: eventhub/{__version__}\r\n"
_OWN_LINES: Final = 6
"""Of a head, beside its headers: the first four, the length of the body, and the empty one."""
_URL: Final = re.compile(r"[!-~]+\Z")
_SECONDS: Final = re.compile(r"[0-9]{1,9}\Z")


class WebhookRequest(msgspec.Struct, frozen=True):
    """A request to send: a POST of this body. Names of headers are in small letters."""

    url: str
    headers: dict[str, str]
    body: bytes
    connect_timeout: float = 5.0
    total_timeout: float = 10.0
    now: float | None = None
    """The time by the clock that signed it; without one this machine's counts."""
    until: float = math.inf
    """When the claim ends, by the monotonic clock: nothing is sent that might not be answered by then."""


class WebhookAnswer(Answer, frozen=True, kw_only=True):
    """How it ended. Times are in milliseconds from the start; a kept connection has no time for DNS and connecting."""

    headers: dict[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    dns_ms: float | None = None
    connect_ms: float | None = None
    first_byte_ms: float | None = None


class _Place(msgspec.Struct, frozen=True):
    """A URL taken apart: where to connect, and how a request begins."""

    origin: Origin
    start: str


class _Trip(msgspec.Struct):
    """What is learnt on the way."""

    started: float
    deadline: float
    """By the loop's clock."""
    dns_ms: float | None = None
    connect_ms: float | None = None


class Sender:
    """Sends webhooks, ``limit`` at a time at most; others wait for their turn without using up their time."""

    def __init__(
        self,
        destinations: Destinations,
        *,
        limit: int = 1000,
        tls: ssl.SSLContext | None = None,
        lookup: Lookup = socket.getaddrinfo,
    ) -> None:
        self._destinations = destinations
        self._resolver = Resolver(destinations, lookup=lookup)
        self._limit = limit
        self._turns = asyncio.Semaphore(limit)
        self._tls = tls
        self._places: dict[str, _Place] = {}
        self._pool: Pool | None = None

    async def start(self) -> None:
        self._pool = Pool(asyncio.get_running_loop(), limit=self._limit)
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])

    async def close(self) -> None:
        """Close the connections that wait; requests on their way are for their senders to end."""
        self._resolver.close()
        if self._pool is not None:
            self._pool.close()

    async def send(self, request: WebhookRequest) -> WebhookAnswer:
        """The answer, or the failure that there was instead; it never raises for what the network does."""
        pool = self._pool
        if pool is None:
            raise RuntimeError("Start the sender before the first request.")
        async with self._turns:
            trip = _Trip(monotonic(), asyncio.get_running_loop().time() + request.total_timeout)
            if trip.started + request.total_timeout >= request.until:
                return self._failure(UNSENT, "The claim ends before there would be an answer.", trip)
            try:
                return self._answer(await self._exchange(pool, request, trip), request.now, trip)
            except BlockedDestination as error:
                return self._failure(BLOCKED, str(error), trip)
            except TimeoutError as error:
                spent = monotonic() - trip.started
                return self._failure(TIMEOUT, f"{_where(request.url)}: {_reason(error)} after {spent:.1f} s", trip)
            except Exception as error:
                if not isinstance(error, OSError | RuntimeError | ValueError):  # uvloop has RuntimeErrors of its own
                    log.exception("webhook_not_sent", to=_where(request.url))
                return self._failure(NETWORK, f"{_where(request.url)}: {_reason(error)}", trip)

    async def _exchange(self, pool: Pool, request: WebhookRequest, trip: _Trip) -> Received:
        place = self._places.get(request.url) or self._place(request.url)
        head = _head(place.start, request)
        connection = pool.take(place.origin) or await self._dial(place, request.connect_timeout, trip)
        try:
            return await connection.exchange(head, request.body, deadline=trip.deadline)
        except BadAnswer:
            pool.forget(place.origin)  # whatever ended this one may have ended those that wait, unheard
            raise
        finally:
            pool.give(place.origin, connection)

    async def _dial(self, place: _Place, seconds: float, trip: _Trip) -> Connection:
        loop = asyncio.get_running_loop()
        scheme, host, port = place.origin
        began = monotonic()
        limit = min(loop.time() + seconds, trip.deadline)
        try:
            async with asyncio.timeout_at(limit):
                addresses = await self._resolver.resolve(host, port)
                looked_up = monotonic()
                trip.dns_ms = (looked_up - began) * 1000
                connection = await self._connect(loop, addresses, host if scheme == "https" else None)
                trip.connect_ms = (monotonic() - looked_up) * 1000
                return connection
        except TimeoutError:
            raise TimeoutError("its name was not found" if trip.dns_ms is None else "there was no connection") from None

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, addresses: list[AddressInfo], tls_host: str | None
    ) -> Connection:
        refused: list[BlockedDestination] = []

        def open_socket(address: AddressInfo) -> socket.socket:
            try:
                return self._destinations.open_socket(address)
            except BlockedDestination as error:
                refused.append(error)
                raise OSError(str(error)) from error

        try:
            sock = await start_connection(
                addresses, happy_eyeballs_delay=SECOND_ADDRESS_AFTER, loop=loop, socket_factory=open_socket
            )
        except (OSError, RuntimeError):
            if refused:
                raise refused[0] from None
            raise
        if refused:  # one bad address among good ones: none of them is to be trusted
            sock.close()
            raise refused[0]
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(loop),
                sock=sock,
                ssl=None if tls_host is None else self._tls,
                server_hostname=None if tls_host is None else tls_host.rstrip("."),
            )
        except BaseException:
            with suppress(OSError, RuntimeError):
                sock.close()
            raise
        return connection

    def _place(self, url: str) -> _Place:
        """Take a URL apart, once; those that can never be sent to are blocked."""
        if not _URL.match(url):
            raise BlockedDestination("The address has characters that no URL has.")
        self._destinations.check_url(url)
        parts = urlsplit(url)
        scheme, host = parts.scheme.lower(), parts.hostname or ""
        if scheme not in ("http", "https") or "@" in parts.netloc:
            raise BlockedDestination("The address is not one of http:// or https:// without a user.")
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        start = f"POST {target} HTTP/1.1\r\nhost: {parts.netloc}\r\naccept: */*\r\naccept-encoding: identity\r\n"
        place = _Place((scheme, host, parts.port or (443 if scheme == "https" else 80)), start)
        if len(self._places) >= MOST_PLACES:
            self._places.clear()
        self._places[url] = place
        return place

    def _answer(self, received: Received, now: float | None, trip: _Trip) -> WebhookAnswer:
        headers: dict[str, str] = {}
        for raw_name, raw_value in received.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return WebhookAnswer(
            status=received.status,
            retry_after=None if "retry-after" not in headers else retry_after(headers["retry-after"], now or time()),
            headers=headers,
            body=received.body,
            dns_ms=trip.dns_ms,
            connect_ms=trip.connect_ms,
            first_byte_ms=(received.first_byte - trip.started) * 1000,
            total_ms=(monotonic() - trip.started) * 1000,
        )

    def _failure(self, kind: str, error: str, trip: _Trip) -> WebhookAnswer:
        error = error.replace("\x00", "\ufffd")
        return WebhookAnswer(
            failure=kind,
            error=error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]}…",
            dns_ms=trip.dns_ms,
            connect_ms=trip.connect_ms,
            total_ms=(monotonic() - trip.started) * 1000,
        )


def _head(start: str, request: WebhookRequest) -> bytes:
    headers = request.headers
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    if "user-agent" not in headers:
        lines.append(_USER_AGENT)
    text = f"{start}{''.join(lines)}content-length: {len(request.body)}\r\n\r\n"
    if text.count("\n") != len(lines) + _OWN_LINES or text.count("\r") != len(lines) + _OWN_LINES or "\0" in text:
        raise ValueError("a header has a line break in it")
    return text.encode("latin-1")


def retry_after(value: str, now: float) -> float | None:
    """Seconds from now, as ``Retry-After`` gives them: a number or a date. None if it is neither."""
    text = value.strip()
    if _SECONDS.match(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        seconds = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return max(0.0, seconds)


def _where(url: str) -> str:
    """The host of a URL: its path and query may hold secrets."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2][:100]
    except ValueError:
        return "?"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"its name was not found: {error.strerror}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
