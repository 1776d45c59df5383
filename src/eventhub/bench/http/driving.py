"""The load's engine: many connections, each with a script that says what to send after which answer.

Plain sockets and one selector, no tasks: a request costs a send, a receive and a few lines of Python, so that the load
takes little of the machine that it shares with the server.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from time import perf_counter
from typing import Final, Protocol, Self

from eventhub.bench.http.wire import Answer, AnswerReader

__all__ = ["Connection", "Driver", "Script"]

PATIENCE: Final = 60.0
CHUNK: Final = 262_144
_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


class Script(Protocol):
    """What one connection does."""

    def next(self, answer: Answer | None) -> bytes | None:
        """The request after an answer, the first one after None; None to rest."""


class Connection:
    """A connection that is kept, what it still has to send, and when its request went out."""

    __slots__ = ("reader", "rest", "script", "sent_at", "socket")

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.reader = AnswerReader()
        self.script: Script | None = None
        self.rest: memoryview | None = None
        self.sent_at = 0.0


class Driver:
    """Connections to one server; ``times`` are the seconds that requests took, ``busy`` those on their way."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._selector = selectors.DefaultSelector()
        self._connections: list[Connection] = []
        self.times: list[float] = []
        self.busy = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.socket.close()
        self._selector.close()

    def connect(self, count: int) -> list[Connection]:
        made = []
        for _ in range(count):
            opened = socket.create_connection(self._address, PATIENCE)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setblocking(False)
            connection = Connection(opened)
            self._selector.register(opened, _READ, connection)
            made.append(connection)
        self._connections += made
        return made

    def run(self, connections: Sequence[Connection], scripts: Sequence[Script]) -> tuple[float, list[float]]:
        """Play the scripts to their ends; how long that took, and how long each request did."""
        self.times = []
        started = perf_counter()
        for connection, script in zip(connections, scripts, strict=True):
            self.begin(connection, script)
        while self.busy:
            if not self.step(PATIENCE):
                raise TimeoutError(f"The server left {self.busy} requests without an answer for {PATIENCE:.0f} s.")
        return perf_counter() - started, self.times

    def begin(self, connection: Connection, script: Script) -> None:
        """Let a connection that rests play a script."""
        connection.script = script
        first = script.next(None)
        if first is not None:
            self.send(connection, first)

    def step(self, timeout: float) -> bool:
        """Handle what has come until now, or comes within the time; False when nothing did."""
        ready = self._selector.select(timeout)
        for key, events in ready:
            connection: Connection = key.data
            if events & _READ:
                self._receive(connection)
            if events & _WRITE and connection.rest is not None:
                self._send_rest(connection)
        return bool(ready)

    def send(self, connection: Connection, request: bytes) -> None:
        self.busy += 1
        connection.sent_at = perf_counter()
        try:
            sent = connection.socket.send(request)
        except BlockingIOError:
            sent = 0
        if sent < len(request):
            connection.rest = memoryview(request)[sent:]
            self._selector.modify(connection.socket, _READ | _WRITE, connection)

    def _send_rest(self, connection: Connection) -> None:
        rest = connection.rest
        assert rest is not None  # noqa: S101 - asked before
        rest = rest[connection.socket.send(rest) :]
        connection.rest = rest if len(rest) else None
        if connection.rest is None:
            self._selector.modify(connection.socket, _READ, connection)

    def _receive(self, connection: Connection) -> None:
        data = connection.socket.recv(CHUNK)
        if not data:
            raise ConnectionError("The server closed a connection that was to be kept; its log may say why.")
        answer = connection.reader.feed(data)
        if answer is None:
            return
        if connection.script is None:
            raise ConnectionError(f"The server said {answer.status} to nobody: {answer.body[:200]!r}")
        self.busy -= 1
        self.times.append(perf_counter() - connection.sent_at)
        following = connection.script.next(answer)
        if following is not None:
            self.send(connection, following)
