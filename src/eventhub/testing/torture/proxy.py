"""A TCP proxy that can lose one reply, or be a bad network for a while: slow, silent, or cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Self

import msgspec

__all__ = ["FAIR", "Proxy", "Weather"]

CHUNK: Final = 65_536
LOOK_EVERY: Final = 0.02
TRICKLE: Final = 64
"""Bytes that go on at a time while bytes are slow."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to bytes on their way."""

    latency: float = 0.0
    """Seconds that each piece takes longer."""
    hole: bool = False
    """Nothing gets through, in either direction; nobody is told."""
    slow: bool = False


FAIR: Final = Weather()


class Proxy:
    """Forwards to ``port``, on this host if no other is named. After ``cut(marker)`` the next request that contains the
    marker is passed on, and when the server has answered it, both sides find their connection closed instead.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._marker: bytes | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._weather, self._changed = FAIR, asyncio.Event()
        self._doomed = 0
        self.cuts = 0
        self.weathered = 0
        """Pieces that met with bad weather."""

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("The proxy has not been started.")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def lead_to(self, port: int) -> None:
        """Where new connections go; those that are open stay."""
        self._target = (self._target[0], port)

    def cut(self, marker: bytes) -> None:
        self._marker = marker

    async def cut_within(self, marker: bytes, seconds: float) -> int:
        """Cut one reply, if such a request comes within so many seconds; returns how many were cut."""
        clock = asyncio.get_running_loop().time
        before, end = self.cuts, clock() + seconds
        self.cut(marker)
        while self._doomed or (self._marker is not None and clock() < end):  # noqa: ASYNC110 - several may end it
            await asyncio.sleep(LOOK_EVERY)
        self._marker = None
        return self.cuts - before

    @property
    def weather(self) -> Weather:
        return self._weather

    @weather.setter
    def weather(self, new: Weather) -> None:
        self._weather = new
        self._changed.set()  # those that wait in the hole
        self._changed = asyncio.Event()

    def reset(self) -> int:
        """End every connection at once, on both sides; returns how many there were."""
        count = len(self._connections)
        for task in self._connections:
            task.cancel()
        return count

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        # In a task of its own: one that asyncio made for the connection complains when it is cancelled.
        task = asyncio.create_task(self._connect(client, to_client))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            await asyncio.wait({task})
        finally:  # here, for the task may have been ended before it began
            to_client.transport.abort()

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection(*self._target)
        except OSError:
            return
        doomed = asyncio.Event()

        def watch(data: bytes) -> bool:
            if self._marker is not None and self._marker in data and not doomed.is_set():
                self._marker = None
                self._doomed += 1
                doomed.set()
            return True

        def reply(_: bytes) -> bool:
            self.cuts += doomed.is_set()
            return not doomed.is_set()

        try:
            async with asyncio.TaskGroup() as group:
                requests = group.create_task(self._pump(client, to_server, watch))
                replies = group.create_task(self._pump(server, to_client, reply))
                await asyncio.wait({requests, replies}, return_when=asyncio.FIRST_COMPLETED)
                requests.cancel()
                replies.cancel()
        finally:
            self._doomed -= doomed.is_set()
            to_server.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: Callable[[bytes], bool]
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(CHUNK):
                self.weathered += self._weather != FAIR
                while self._weather.hole:
                    await self._changed.wait()
                if self._weather.latency:
                    await asyncio.sleep(self._weather.latency)
                if not passes(data):
                    return
                await self._pass_on(data, sink)

    async def _pass_on(self, data: bytes, sink: asyncio.StreamWriter) -> None:
        """At once, or piece by piece as long as bytes are slow."""
        place = 0
        while place < len(data):
            size = TRICKLE if self._weather.slow else len(data)
            sink.write(data[place : place + size])
            await sink.drain()
            place += size
            if place < len(data):
                await asyncio.sleep(0.001)
