"""A receiver of webhooks on 127.0.0.1 that answers byte by byte as a test says, however bad the manners."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Self

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver:
    """Answers each request with the next of ``answers``: bytes, or something to be done. The last one repeats."""

    def __init__(self, *answers: bytes | Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers) or [OK]
        self._tls = tls
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}/hook?a=b"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await _request(reader)) is not None:
                self.requests.append(request)
                self.asked.set()
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(reader, writer)
            self.hung_up.set()
        except (OSError, asyncio.CancelledError):
            self.hung_up.set()
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return first, headers, await reader.readexactly(int(headers["content-length"]))


def then_close(answer: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    return behave


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End the connection with a RST instead of a FIN."""
    handle = writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def then_silence(answer: bytes = b"") -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()  # until the other side has had enough

    return behave


def then_drip(answer: bytes, drop: bytes) -> Behaviour:
    """Go on for ever, a drop at a time."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        while not writer.transport.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.005)

    return behave


def then_flood(answer: bytes, piece: bytes) -> Behaviour:
    """Go on for ever, as fast as it is read."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        while not writer.transport.is_closing():
            writer.write(piece)
            await writer.drain()

    return behave
