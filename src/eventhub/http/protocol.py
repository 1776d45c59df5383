"""uvicorn's HTTP protocol with limits of its own: headers and URL by size, and the time until they are all there.

What the application never sees cannot be refused by it: a request whose headers do not end, or come a byte a minute,
is answered here, with 431, 414 or 408, and its connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from eventhub.http.problems import Problem

__all__ = ["LimitedProtocol"]

MOST_HEADER_BYTES: Final = 64 * 1024
LONGEST_URL: Final = 16 * 1024
HEADER_SECONDS: Final = 10.0


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
            if self._slow is None:
                self._expect_headers()
        super().data_received(data)
        if self._in_headers and self._header_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
            long_url = len(getattr(self, "url", b"")) > LONGEST_URL
            self._refuse(
                Problem(414, "url-too-long", "The URL is too long. Use a body instead.")
                if long_url
                else Problem(431, "headers-too-large", f"The headers have more than {MOST_HEADER_BYTES:,} bytes.")
            )

    def on_headers_complete(self) -> None:
        self._stop_clock()
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
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
        if not self.transport.is_closing():
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
