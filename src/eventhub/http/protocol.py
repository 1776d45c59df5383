"""uvicorn's HTTP protocol with limits of its own: headers and URL by size, and the time until they are all there.

What the application never sees cannot be refused by it: a request whose headers do not end, or come a byte a minute,
is answered here, with 431, 414 or 408, and its connection is closed. So is one whose end could be read in two ways: an
offer of another protocol (``Upgrade``, ``CONNECT``), behind which the parser takes a body for the next request.

A refusal waits for the answers to what came before it on the connection; what comes after it is thrown away.

An answer leaves in one write: each is a system call, and a packet that wakes the client.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from eventhub.http.peer import PEER, Peer
from eventhub.http.problems import Problem

__all__ = ["LimitedProtocol"]

MOST_HEADER_BYTES: Final = 64 * 1024
LONGEST_URL: Final = 16 * 1024
HEADER_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 2.0
"""For which a client that was refused may go on sending: closed at once, its answer could be lost on the way."""
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
        self._refusal: Problem | None = None
        self._unanswered = 0
        super().connection_made(transport)
        self._peer = Peer(self.client, self.server)  # type: ignore[arg-type]
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        if self._in_headers:
            self._header_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(_problem_of(error))
            return
        if not self._in_headers or not self._header_bytes or self.transport.is_closing():
            return
        if self._slow is None:
            self._expect_headers()
        if self._header_bytes > MOST_HEADER_BYTES:
            self._refuse(
                Problem(
                    431, "headers-too-large", f"The headers have more than {MOST_HEADER_BYTES:,} bytes. Send fewer."
                )
            )

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_URL:
            raise Problem(414, "url-too-long", f"The URL is longer than {LONGEST_URL:,} bytes. Use a body instead.")

    def on_headers_complete(self) -> None:
        self._stop_clock()
        if self.parser.should_upgrade() or any(name == b"upgrade" for name, _ in self.headers):
            raise Problem(
                400,
                "upgrade",
                "This server speaks HTTP/1.1 alone and changes to no other protocol. Send the request without Upgrade: "
                "tell the client to use HTTP/1.1 (curl --http1.1; in Java, version(HTTP_1_1)).",
            )
        if not self.url.startswith(b"/"):
            self._check_target()
        self.scope[PEER] = self._peer  # type: ignore[typeddict-unknown-key, unused-ignore]
        before = self.cycle
        super().on_headers_complete()
        self._in_headers = False
        if self.cycle is not before:
            self._unanswered += 1
            answer = WholeAnswer(self.transport, self.cycle)
            self.cycle.transport = answer  # type: ignore[assignment]
            self.cycle.on_response = partial(self._answered, answer)

    def _check_target(self) -> None:
        """A whole URL as the target counts more than Host, so both must name the same."""
        named = self.url.partition(b"//")[2].partition(b"/")[0].partition(b"?")[0].lower()
        if named and any(name == b"host" and value.lower() != named for name, value in self.headers):
            raise Problem(
                421, "unknown-host", "The URL of the request names another server than its Host. Send the path alone."
            )

    def _answered(self, answer: WholeAnswer) -> None:
        answer.flush()
        self._unanswered -= 1
        self.on_response_complete()
        if self.transport.is_closing():
            return
        if self._refusal is not None:
            if not self._unanswered:
                self._say_no(self._refusal)
        elif not self._in_headers:
            # The body was refused before its end: let it come and throw it away, for a client that sends all before
            # it reads would never see the answer.
            self._close_after(HEADER_SECONDS)

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
        if self._unanswered:
            self._expect_headers()  # an answer is on its way, and the rest may still come meanwhile
        elif not self.transport.is_closing():
            self._refuse(Problem(408, "too-slow", "The headers did not arrive in time. Send the request again."))

    def _refuse(self, problem: Problem) -> None:
        """Take no more requests; the answer to this one goes when those before it have theirs."""
        self._refusal = problem
        self._stop_clock()
        if not self._in_headers and not self._drop_unfinished():
            self.transport.close()
        elif not self._unanswered:
            self._say_no(problem)

    def _drop_unfinished(self) -> bool:
        """Forget the request whose body went wrong; False when its answer has begun, so that no other can be given."""
        if self.cycle.response_started:
            return False
        if self.pipeline:
            self.pipeline.popleft()
        self.cycle.disconnected = True  # whoever works on it gives up
        self.cycle.message_event.set()
        self._unanswered -= 1
        return True

    def _say_no(self, problem: Problem) -> None:
        answer = problem.answer()
        head = [
            f"HTTP/1.1 {answer.status} {problem.body()['title']}".encode(),
            b"content-type: application/problem+json",
            b"content-length: " + str(len(answer.body)).encode(),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join([*head, b"", answer.body]))
        self.transport.write_eof()
        self._close_after(LINGER_SECONDS)

    def _close_after(self, seconds: float) -> None:
        self._stop_clock()
        self._slow = self.loop.call_later(seconds, self.transport.close)


def _problem_of(error: Exception) -> Problem:
    """Why the parser stopped: a reason of ours, or bytes that are no HTTP."""
    if isinstance(error.__context__, Problem):
        return error.__context__
    return Problem(400, "invalid-http", "Invalid HTTP request received. Check the request line and the headers.")
