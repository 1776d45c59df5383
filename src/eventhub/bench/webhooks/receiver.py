"""The consumer of all webhooks, a process of its own: answers at once, counts by path, and checks what comes.

``python -m eventhub.bench.webhooks.receiver`` reads its orders from the first line of its input, in JSON; every line
after that asks for a tally, which it writes as one line of JSON. As lean as a receiver can be, so that it takes little
of the machine that it shares with what is measured.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from hmac import compare_digest
from time import monotonic
from typing import Any, Final

import httptools
import msgspec
import uvloop

from eventhub.core.signing import parse_secret, sign

__all__ = ["HANGING", "HOT", "TIMED", "ReceiverOrders", "Tally"]

ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
HANGING: Final = "/hanging"
"""Paths that begin so are answered late."""
TIMED: Final = "/timed"
"""Of what comes here the time is kept."""
HOT: Final = "hot"
"""What comes with this key is counted by itself, wherever it came."""
BACKLOG: Final = 2048
_HANGING: Final = HANGING.encode()
_TIMED: Final = TIMED.encode()
_PLACE: Final = re.compile(rb'"key":"([^"]*)","number":([0-9]+)')
_HEADER: Final = re.compile(rb"\r\n(webhook-(?:id|timestamp|signature)): ([^\r]*)")


class ReceiverOrders(msgspec.Struct, frozen=True, kw_only=True):
    """One in ``sample`` requests on a connection has its signature checked; ``ordered``: all have their place in it."""

    secret: str
    sample: int = 100
    ordered: bool = False
    hang_seconds: float = 10.0


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What came until ``at`` (CLOCK_MONOTONIC), by path; ``times`` are those since the tally before, by number."""

    at: float
    counts: dict[str, int]
    checked: int = 0
    forged: int = 0
    out_of_order: int = 0
    times: dict[int, float] = {}

    @property
    def received(self) -> int:
        return sum(self.counts.values())


class Book:
    """What has come."""

    def __init__(self, orders: ReceiverOrders) -> None:
        self.hang_seconds = orders.hang_seconds
        self.sample = orders.sample
        self._ordered = orders.ordered
        self._secret = parse_secret(orders.secret)
        self._counts: Counter[bytes] = Counter()
        self._last: dict[tuple[bytes, bytes], int] = {}
        self._times: dict[int, float] = {}
        self._checked = self._forged = self._out_of_order = 0

    def enter(self, path: bytes, body: bytes) -> None:
        if path == _TIMED and (place := _PLACE.search(body)):
            self._times.setdefault(int(place[2]), monotonic())
        if self._ordered and (place := _PLACE.search(body)):
            key, number = place[1], int(place[2])
            if self._last.get((path, key), -1) >= number:
                self._out_of_order += 1
            self._last[path, key] = number
            if key == HOT.encode():
                path = key
        self._counts[path] += 1

    def check(self, request: bytes, body: bytes) -> None:
        """Whether a request that came in one piece is signed as it should be."""
        found = {name: value.decode() for name, value in _HEADER.findall(request)}
        self._checked += 1
        try:
            expected = sign([self._secret], found[b"webhook-id"], int(found[b"webhook-timestamp"]), body)
            self._forged += not compare_digest(expected, found[b"webhook-signature"])
        except (KeyError, ValueError):
            self._forged += 1

    def tally(self) -> Tally:
        times, self._times = self._times, {}
        return Tally(
            at=monotonic(),
            counts={path.decode(): count for path, count in self._counts.items()},
            checked=self._checked,
            forged=self._forged,
            out_of_order=self._out_of_order,
            times=times,
        )


class Receiving(asyncio.Protocol):
    """One kept connection. The headers are looked at only where a signature is checked."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._url = self._data = b""
        self._body: list[bytes] = []
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data = data
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self._number += 1
        self._book.enter(self._url, body)
        if self._number % self._book.sample == 0 and self._data.startswith(b"POST "):
            self._book.check(self._data, body)
        if self._url.startswith(_HANGING):
            asyncio.get_running_loop().call_later(self._book.hang_seconds, self._transport.write, ANSWER)
        else:
            self._transport.write(ANSWER)


class Asked(asyncio.Protocol):
    """The input of the process: its end is the end of the process."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\n")):
            sys.stdout.buffer.write(msgspec.json.encode(self._book.tally()) + b"\n")
        sys.stdout.flush()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def receive(orders: ReceiverOrders) -> None:
    """Until the input ends."""
    loop = asyncio.get_running_loop()
    book = Book(orders)
    server = await loop.create_server(lambda: Receiving(book), "127.0.0.1", 0, backlog=BACKLOG)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        print(f"listens on http://{host}:{port}", flush=True)  # noqa: T201 - the bench waits for it
        _, asked = await loop.connect_read_pipe(lambda: Asked(book), sys.stdin.buffer)
        await asked.ended


def main() -> None:
    with open(0, "rb", buffering=0, closefd=False) as asked:  # no more than the line is read
        orders = msgspec.json.decode(asked.readline(), type=ReceiverOrders)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(receive(orders))


if __name__ == "__main__":
    main()
