"""A connection to a receiver: one request after another over HTTP/1.1, each answered before the next is sent.

A general HTTP client costs four times as much for each request (docs/reference/benchmarks.md) and does much that a
webhook must not: follow redirects, use proxies and cookies, decompress. The parser is llhttp, as in Node. What is read
is bounded: headers, body, and everything around them.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final

import httptools
import msgspec

__all__ = ["LARGEST_BODY", "LARGEST_HEAD", "BadAnswer", "Connection", "Received"]

LARGEST_BODY: Final = 16_384
"""Bytes of an answer that are kept; what goes beyond is not read."""
LARGEST_HEAD: Final = 32_768
LARGEST_ANSWER: Final = 131_072
"""Bytes in all, so that chunks of nothing but extensions come to an end."""
WRITTEN_AT_ONCE: Final = 65_536
SWITCHING: Final = 101
FINAL: Final = 200


class BadAnswer(ConnectionError):
    """The connection ended, or what came is no answer."""


class Received(msgspec.Struct):
    """An answer: its headers as they came, and at most so much of its body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    first_byte: float
    """When all headers were there; not by uvloop's clock, which counts whole milliseconds."""


class Connection(asyncio.Protocol):
    """The protocol of one connection; ``reusable`` after an answer says whether another request may be sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: Any = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Received] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._size = 0
        self._first_byte: float | None = None
        self._delimited = True
        self.reusable = False
        self.lost = False
        self.made_at = loop.time()
        self.idle_since = 0.0

    async def exchange(self, head: bytes, body: bytes, *, deadline: float) -> Received:
        """Send a request and wait for its answer until this time. Raises BadAnswer or TimeoutError.

        A process that was held up sends nothing after it. Unless it is ``reusable`` then, close the connection.
        """
        if self.lost:
            raise BadAnswer("the connection was closed")
        if monotonic() >= deadline:  # the loop's own clock may have been read before
            raise TimeoutError("there was no time left to send it")
        self.reusable = False
        self._size = 0
        self._clear()
        waiter: asyncio.Future[Received] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_at(deadline, self._expire)
        if len(body) > WRITTEN_AT_ONCE:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + body)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()  # nothing that is still to be written matters to anyone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked
            return
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")
        if self._size > (LARGEST_HEAD if self._first_byte is None else LARGEST_ANSWER):
            self._stop_reading()

    def eof_received(self) -> bool:
        if self._first_byte is not None and not self._delimited:
            self._finish(reusable=False)  # the end of the connection is the end of the body
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.reusable = False
        if error is not None:
            self._fail(f"the connection broke: {error}")
        elif self._first_byte is not None:
            self._fail("the connection was closed in the middle of the answer")
        else:
            self._fail("the connection was closed without an answer")

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():
            self.reusable = False  # more than was asked for
        self._clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._first_byte is None:  # what comes after the body is no header of this answer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._first_byte = monotonic()
        names = {name.lower() for name, _ in self._headers}
        self._delimited = b"content-length" in names or b"transfer-encoding" in names

    def on_body(self, body: bytes) -> None:
        room = LARGEST_BODY - self._body_size
        self._body_size += len(body)
        if room > 0:
            self._body.append(body[:room])
        if self._body_size > LARGEST_BODY:
            self._stop_reading()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < FINAL and status != SWITCHING:
            self._first_byte = None  # the answer proper is still to come
            return
        sent = self._transport.get_write_buffer_size() == 0
        self._finish(reusable=sent and status != SWITCHING and self._parser.should_keep_alive())

    def _clear(self) -> None:
        self._headers = []
        self._body = []
        self._body_size = 0
        self._first_byte = None

    def _stop_reading(self) -> None:
        """What came so far is the answer, if its headers are there."""
        if self._first_byte is None:
            self._fail("the headers of the answer are too large")
        else:
            self._finish(reusable=False)
        self.close()

    def _finish(self, *, reusable: bool) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done() or self._first_byte is None:
            return
        self.reusable = reusable
        body = b"".join(self._body)
        waiter.set_result(Received(self._parser.get_status_code(), self._headers, body, self._first_byte))

    def _expire(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            begun = f"the answer (HTTP {self._parser.get_status_code()}) was not complete"
            self._waiter.set_exception(TimeoutError("there was no answer" if self._first_byte is None else begun))

    def _fail(self, message: str) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(BadAnswer(message))
        self.close()
