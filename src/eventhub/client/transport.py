"""Requests to one hub: where it is, who asks, how long to wait, and what may be asked again.

A request that surely was not carried out is repeated, with growing jittered pauses, until the time is up. One whose
answer got lost is repeated only where doing it twice is the same as doing it once.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec

from eventhub._version import __version__
from eventhub.client.problems import AWAY, error_of, read_problem
from eventhub.client.tracing import inject
from eventhub.errors import EventHubError, ServerUnavailable, SettingsError
from eventhub.handling.backoff import Backoff

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Reply", "Transport"]

LONGEST_CONNECT: Final = 10.0
LARGE: Final = 1_000_000
"""Bytes of a body that is sent piece by piece, so that others get a turn."""
PASSED_ON: Final = frozenset({502, 504})
"""A proxy got no good answer: what it had passed on may have been done."""


class Reply(msgspec.Struct, frozen=True):
    """An answer as it came."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def error(self) -> EventHubError:
        """The error that an answer of 300 and above stands for."""
        return error_of(read_problem(self.status, self.body), self.headers)


class _AnswerLost(ServerUnavailable):
    """The request may have been carried out."""


class Transport:
    """A connection pool to one hub, opened when it is first needed."""

    def __init__(self, url: str, *, key: str | None, timeout: float, retries: bool) -> None:
        if not timeout > 0:
            raise SettingsError(f"timeout is {timeout!r}; give seconds, more than 0.")
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
            raise SettingsError("The key is not one that a hub has issued; it looks like eh_….")
        self.url = _checked(url)
        self.timeout = timeout
        self._aiohttp = _import_aiohttp()
        self._retries = retries
        self._headers = {"Accept": "application/json", "User-Agent": f"eventhub/{__version__}"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self.waiting: Callable[[ServerUnavailable, float], None] | None = None
        """Told before each pause what the trouble is, and for how many seconds it goes on trying."""
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def hang_up(self) -> None:
        """Say on every connection that nothing more will be asked, but go on listening.

        A hub that holds a request open gives up on it; what it has answered before it heard of this still arrives.
        Closing the connection instead could lose that answer, and with it what it says.
        """
        for each in list(self._sockets):
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        wait: float = 0.0,
    ) -> Reply:
        """The answer, whatever it says, unless it is that there is none to be had now: then ServerUnavailable.

        ``wait`` is how long the hub itself may take before it answers, on top of the timeout.
        """
        content = None if body is None else msgspec.json.encode(body)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout + wait
        backoff = Backoff(first=0.1, most=2.0)
        while True:
            try:
                return await self._once(method, path, query, content, headers or {}, seconds=deadline - loop.time())
            except ServerUnavailable as error:
                pause = backoff.pause(error.retry_after)
                lost = isinstance(error, _AnswerLost) and not repeatable
                if lost or not self._retries or loop.time() + pause >= deadline:
                    raise
                if self.waiting is not None:
                    self.waiting(error, deadline - loop.time())
            await asyncio.sleep(pause)

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        content: bytes | None,
        more: Mapping[str, str],
        *,
        seconds: float,
    ) -> Reply:
        aiohttp = self._aiohttp
        headers: dict[str, str] = {**more, **({} if content is None else {"Content-Type": "application/json"})}
        inject(headers)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, LONGEST_CONNECT))
        try:
            async with self._open().request(
                method,
                self.url + path,
                params=query,
                data=content if content is None or len(content) < LARGE else io.BytesIO(content),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                reply = Reply(response.status, await response.read(), response.headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ServerUnavailable(self._away(error)) from error
        except TimeoutError as error:
            raise _AnswerLost(self._away(f"no answer within {seconds:.1f} s")) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _AnswerLost(self._away(error)) from error
        if reply.status in AWAY:
            trouble = reply.error()
            after = trouble.retry_after if isinstance(trouble, ServerUnavailable) else None
            kind = _AnswerLost if reply.status in PASSED_ON else ServerUnavailable
            raise kind(self._away(trouble), retry_after=after)
        return reply

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = self._aiohttp.TCPConnector(socket_factory=self._make_socket)
            self._session = self._aiohttp.ClientSession(headers=self._headers, connector=connector)
        return self._session

    def _make_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol = address[:3]
        made = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.add(made)
        return made

    def _away(self, why: object) -> str:
        reason = getattr(why, "strerror", None) or str(why) or type(why).__name__
        return f"The hub at {self.url} does not answer: {reason}. Check its address, and that `eventhub serve` runs."


def _checked(url: str) -> str:
    """The address without a slash at its end."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except (ValueError, AttributeError, TypeError):
        raise SettingsError(f"The address {url!r} cannot be read; give one such as http://127.0.0.1:8080.") from None
    if not usable or parts.query or parts.fragment or parts.username is not None:
        raise SettingsError(
            f"The address {parts._replace(netloc=parts.hostname or '', query='', fragment='').geturl()!r} is not that "
            "of a hub; give one such as http://127.0.0.1:8080, and the key apart from it."
        )
    return url.rstrip("/")


def _import_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as error:
        raise EventHubError("The HTTP client needs aiohttp: pip install 'eventhub[client]'.") from error
    return aiohttp
