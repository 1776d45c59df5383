"""uvicorn's HTTP protocol with limits of its own: headers and URL by size, and the time until they are all there.

What the application never sees cannot be refused by it: a request whose headers do not end, or come a byte a minute,
is answered here, with 431, 414 or 408, and its connection is closed.

An answer leaves in one write: each is a system call, and a packet that wakes the client.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from eventhub.http.problems import Problem

__all__ = ["LimitedProtocol"]

MOST_HEADER_BYTES: Final = 64 * 1024
LONGEST_URL: Final = 16 * 1024
HEADER_SECONDS: Final = 10.0
_UPGRADE: Final = re.compile(rb"(\r\n)upgrade:", re.IGNORECASE)
CONTINUE: Final = b"HTTP/1.1 100 "


class WholeAnswer:
    """A transport for one answer that keeps its head until there is more of it."""

    __slots__ = ("_begun", "_cycle", "_head", "_transport")

    def __init__(self, transport: Any, cycle: Any) -> None:
        self._transport = transport
        self._cycle = cycle
        self._head = b""
        self._begun = False

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif not self._begun and not data.startswith(CONTINUE):
            self._begun, self._head = True, data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """An answer may have no body at all."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self.flush()
        if self._cycle.response_started and not self._cycle.response_complete:
            self._transport.abort()  # given up half-way: whoever takes nothing would hold the connection for ever
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())


class LimitedProtocol(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        self._header_bytes = 0
        self._in_headers = True
        self._slow: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            self._header_bytes += len(data)
            if b"pgrade" in data:
                data = _without_upgrade(data)
        super().data_received(data)
        if not self._in_headers or not self._header_bytes or self.transport.is_closing():
            return
        if self._slow is None:
            self._expect_headers()
        if self._header_bytes > MOST_HEADER_BYTES:
            long_url = len(getattr(self, "url", b"")) > LONGEST_URL
            self._refuse(
                Problem(414, "url-too-long", "The URL is too long. Use a body instead.")
                if long_url
                else Problem(431, "headers-too-large", f"The headers have more than {MOST_HEADER_BYTES:,} bytes.")
            )

    def on_headers_complete(self) -> None:
        self._stop_clock()
        self._in_headers = False
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            answer = WholeAnswer(self.transport, self.cycle)
            self.cycle.transport = answer  # type: ignore[assignment]
            self.cycle.on_response = partial(self._answered, answer)

    def _answered(self, answer: WholeAnswer) -> None:
        answer.flush()
        self.on_response_complete()
        if not self._in_headers and not self.transport.is_closing():
            # The body was refused before its end: let it come and throw it away, for a client that sends all before
            # it reads would never see the answer.
            self._stop_clock()
            self._slow = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def on_message_complete(self) -> None:
        self._stop_clock()
        super().on_message_complete()
        self._in_headers = True
        self._header_bytes = 0

    def _expect_headers(self) -> None:
        self._slow = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _stop_clock(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_headers()  # an answer is on its way, and must not be mistaken for this one
        elif not self.transport.is_closing():
            self._refuse(Problem(408, "too-slow", "The headers did not arrive in time. Send the request again."))

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP; the answer has our form."""
        self._refuse(Problem(400, "invalid-http", f"{msg} Check the request line and the headers."))

    def _refuse(self, problem: Problem) -> None:
        self._stop_clock()
        answer = problem.answer()
        head = [
            f"HTTP/1.1 {answer.status} {problem.body()['title']}".encode(),
            b"content-type: application/problem+json",
            b"content-length: " + str(len(answer.body)).encode(),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", answer.body]))
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The request without its offer to go on in another protocol: the parser would take it, and skip the body."""
    head, end, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(rb"\1x-upgrd:", head) + end + body
