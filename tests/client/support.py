"""A hub in a process of its own that can be killed and started again, and a network that loses answers."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from eventhub.testing.torture.crew import free_ports
from tests.cli.forking import Forked, begin_forked
from tests.cli.support import Command

LISTENS = "Event Hub listens on "
START_SECONDS = 60.0
_refusing: list[socket.socket] = []


class Hub:
    """``eventhub serve`` on a database. It keeps its port through restarts."""

    def __init__(self, directory: Path, db: str, *options: str) -> None:
        self.directory, self.db, self.options = directory, db, options
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = Command(directory)
        self._process: Forked | None = None

    def start(self) -> Self:
        arguments = ("serve", "--db", self.db, "--port", str(self.port), "--log-level", "warning", *self.options)
        with os.fdopen(os.dup(2), "wb") as errors:
            self._process, self._said = begin_forked(
                arguments, cwd=self.directory, env=self.command.environment, stderr=errors
            )
        line = self._said.readline()
        assert line.startswith(LISTENS), f"the hub said {line!r} and not where it listens"
        # What else it says must not fill the pipe.
        self._draining = threading.Thread(target=self._said.read, daemon=True)
        self._draining.start()
        return self

    def end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(60)
        self._draining.join()
        self._said.close()
        return code

    def kill(self) -> None:
        """SIGKILL: it cannot say goodbye."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        self.end(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def refusing_port() -> int:
    """A port that nobody listens at and nobody else gets, as long as this process lives."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    _refusing.append(taken)
    port: int = taken.getsockname()[1]
    return port


def free_port() -> int:
    """One below those that are given to outgoing connections, so that it is still free when it is taken again later."""
    (port,) = free_ports(1)
    return port


class Network:
    """Stands between a client and a hub, and loses answers when told to: the hub has done what it was asked."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self.lose = 0
        """How many answers to lose; each costs its connection."""
        self.lost = 0
        self.requests = 0
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hub_reader, hub_writer = await asyncio.open_connection(self._target.hostname, self._target.port)

        async def there() -> None:
            while chunk := await reader.read(65_536):
                self.requests += chunk.startswith((b"GET ", b"POST "))
                hub_writer.write(chunk)
                await hub_writer.drain()

        async def back() -> None:
            while chunk := await hub_reader.read(65_536):
                if self.lose:
                    self.lose -= 1
                    self.lost += 1
                    return
                writer.write(chunk)
                await writer.drain()

        ways = [asyncio.create_task(there()), asyncio.create_task(back())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            hub_writer.close()
            writer.close()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()


async def until(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Wait until the condition holds; it may be asked of another process."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet buried does not."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False
