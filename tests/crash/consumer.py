"""A quick consumer of webhooks in the test's own process, which watches the order of each key as it happens.

A request begins when all of it is there and ends with its answer, or with its connection. For one path and key at most
one may be under way, and what comes for the first time must come after everything that came before it.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Hashable
from typing import Any, Self

import httptools
import msgspec

Behaviour = Callable[["Arrival"], int | None]
"""The status to answer with at once; None when the test answers later, or never."""
KeyOf = Callable[["Arrival"], Hashable | None]


class Arrival:
    """One request. ``message`` is the number in its webhook-id: every attempt has the same, later messages more."""

    __slots__ = ("_connection", "began", "ended", "headers", "message", "path", "payload", "status")

    def __init__(self, connection: "_Connection", path: str, headers: dict[str, str], body: bytes) -> None:
        self._connection = connection
        self.path, self.headers = path, headers
        self.message = int(headers["webhook-id"].rpartition("_")[2])
        self.payload: Any = msgspec.json.decode(body)
        self.began = time.monotonic()
        self.ended: float | None = None
        self.status: int | None = None

    @property
    def open(self) -> bool:
        return self.ended is None

    def reply(self, status: int = 200) -> None:
        """Answer, unless the other side has gone."""
        if self.ended is None:
            self.status = status
            self._connection.answer(self, status)

    def cut(self) -> None:
        """Drop the connection instead of an answer."""
        self._connection.abort()

    @property
    def abandoned(self) -> bool:
        """Whether the sender's end of the connection is closed already, though this loop has not been told yet."""
        return self._connection.ended_over_there()

    def __repr__(self) -> str:
        return f"<{self.path} {self.message} {self.payload}>"


class Consumer:
    """Answers 200 unless ``behave`` says otherwise; with ``key_of`` it watches the order of each path's keys."""

    def __init__(self, behave: Behaviour = lambda _: 200, *, key_of: KeyOf | None = None) -> None:
        self.behave, self._key_of = behave, key_of
        self.arrivals: list[Arrival] = []
        self.taken: dict[str, dict[int, Arrival]] = {}
        """By path and message: the request that was answered with 2xx, the first if there were several."""
        self.first: dict[tuple[str, Hashable], list[Arrival]] = {}
        """By path and key: each message when it came for the first time."""
        self.violations: list[str] = []
        self._seen: set[tuple[str, int]] = set()
        self._under_way: dict[tuple[str, Hashable], Arrival] = {}
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=4096)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.abort()

    def url(self, path: str = "/hook") -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{path}"

    def at(self, path: str) -> list[Arrival]:
        return [arrival for arrival in self.arrivals if arrival.path == path]

    @property
    def open(self) -> list[Arrival]:
        return [arrival for arrival in self.arrivals if arrival.open]

    @property
    def delivered(self) -> int:
        return sum(map(len, self.taken.values()))

    def begin(self, arrival: Arrival) -> None:
        self.arrivals.append(arrival)
        key = None if self._key_of is None else self._key_of(arrival)
        if key is not None:
            self._watch((arrival.path, key), arrival)
        self._seen.add((arrival.path, arrival.message))
        status = self.behave(arrival)
        if status is not None:
            arrival.reply(status)

    def end(self, arrival: Arrival) -> None:
        arrival.ended = time.monotonic()
        if arrival.status is not None and 200 <= arrival.status < 300:
            self.taken.setdefault(arrival.path, {}).setdefault(arrival.message, arrival)

    def _watch(self, place: tuple[str, Hashable], arrival: Arrival) -> None:
        other = self._under_way.get(place)
        if other is not None and other.open and not other.abandoned:
            self.violations.append(f"{arrival} came while {other} was under way")
        self._under_way[place] = arrival
        if (arrival.path, arrival.message) in self._seen:
            return
        before = self.first.setdefault(place, [])
        if before and before[-1].message > arrival.message:
            self.violations.append(f"{arrival} came after {before[-1]}")
        before.append(arrival)


class _Connection(asyncio.Protocol):
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._headers, self._body = "", dict[str, str](), b""
        self._arrival: Arrival | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._consumer._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._consumer._connections.discard(self)
        if self._arrival is not None and self._arrival.open:
            self._arrival.status = None
            self._consumer.end(self._arrival)

    def on_message_begin(self) -> None:
        self._headers, self._body = {}, b""

    def on_url(self, url: bytes) -> None:
        self._path = url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._arrival = Arrival(self, self._path, self._headers, self._body)
        self._consumer.begin(self._arrival)

    def answer(self, arrival: Arrival, status: int) -> None:
        self._consumer.end(arrival)
        self._transport.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)

    def abort(self) -> None:
        self._transport.abort()

    def ended_over_there(self) -> bool:
        number = self._transport.get_extra_info("socket").fileno()
        if number < 0:
            return True
        with socket.socket(fileno=os.dup(number)) as peeked, contextlib.suppress(BlockingIOError):
            try:
                return peeked.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except ConnectionError:
                return True
        return False
