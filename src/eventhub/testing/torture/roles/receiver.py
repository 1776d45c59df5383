"""A process that receives webhooks, writes each down before it answers, and behaves badly by chance.

``webhook-id`` tells the message, the path the subscriber. It may be killed at any moment; SIGUSR2 makes it behave.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from pathlib import Path
from typing import Any, Final, Literal

import httptools
import msgspec
import uvloop

from eventhub.testing.torture.history import History, hash_of

Manner = Literal["200", "500", "429", "404", "reset", "hang", "endless", "slow"]
EVIL: Final[dict[Manner, float]] = {
    "200": 0.9,
    "500": 0.04,
    "429": 0.01,
    "404": 0.002,
    "reset": 0.02,
    "hang": 0.003,
    "endless": 0.01,
    "slow": 0.015,
}
GOOD: Final[dict[Manner, float]] = {"200": 1.0}
LONGEST_SLOW: Final = 0.3
STEP: Final = 0.01
PIECE: Final = b"400\r\n" + b"x" * 1024 + b"\r\n"


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    port: int
    seed: int
    ordered: tuple[str, ...] = ()
    """Paths of subscribers that want their messages in order."""
    evil: bool = True


class Receiver:
    def __init__(self, arguments: Arguments, history: History) -> None:
        self.history, self._ordered = history, arguments.ordered
        self.chance = random.Random(f"{arguments.seed}/{arguments.process}")
        self.manners = EVIL if arguments.evil else GOOD

    def heal(self) -> None:
        self.manners = GOOD

    def arrived(self, path: str, webhook_id: str, body: bytes) -> Manner:
        """How this request is answered; what came is written down first."""
        (manner,) = self.chance.choices(list(self.manners), list(self.manners.values()))
        payload = msgspec.json.decode(body)
        self.history.note(
            "arrive",
            id=int(webhook_id.rpartition("_")[2]),
            worker=path,
            token=payload["token"],
            key=payload["key"] if path in self._ordered else None,
            hash=hash_of(payload),
            outcome="200" if manner in ("endless", "slow") else manner,
        )
        return manner


class _Connection(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._id, self._body = "", "", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_url(self, url: bytes) -> None:
        self._path = url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"webhook-id":
            self._id = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        manner = self._receiver.arrived(self._path, self._id, self._body)
        if manner == "reset":
            self._transport.abort()
        elif manner == "endless":
            self._transport.write(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n")
            self._go_on()
        elif manner == "slow":
            asyncio.get_running_loop().call_later(LONGEST_SLOW * self._receiver.chance.random(), self._answer, "200")
        elif manner != "hang":
            self._answer(manner)

    def _answer(self, status: str) -> None:
        wait = "retry-after: 1\r\n" if status == "429" else ""
        if not self._transport.is_closing():
            self._transport.write(f"HTTP/1.1 {status} x\r\n{wait}content-length: 0\r\n\r\n".encode())

    def _go_on(self) -> None:
        """A body without an end, until nobody listens."""
        if not self._transport.is_closing():
            self._transport.write(PIECE)
            asyncio.get_running_loop().call_later(STEP, self._go_on)


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        uvloop.run(receive(arguments, history))


async def receive(arguments: Arguments, history: History) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    receiver = Receiver(arguments, history)
    loop.add_signal_handler(signal.SIGTERM, told.set)
    loop.add_signal_handler(signal.SIGUSR2, receiver.heal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})  # it may have come already
    server = await loop.create_server(lambda: _Connection(receiver), "127.0.0.1", arguments.port, backlog=1024)
    history.note("ready")
    with contextlib.suppress(asyncio.CancelledError):
        await told.wait()
    server.close()
    history.note("end")
