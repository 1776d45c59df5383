"""A TCP proxy before the database that can lose one reply: the request arrives, its answer never does."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

CHUNK = 65_536


class Proxy:
    """Forwards to ``port`` on this host. After ``cut(marker)`` the next request that contains the marker is passed on,
    and when the server has answered it, both sides find their connection closed instead."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._marker: bytes | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.cuts = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self, marker: bytes) -> None:
        self._marker = marker

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        doomed = asyncio.Event()

        def watch(data: bytes) -> bool:
            if self._marker is not None and self._marker in data:
                self._marker = None
                doomed.set()
            return True

        def reply(_: bytes) -> bool:
            self.cuts += doomed.is_set()
            return not doomed.is_set()

        try:
            async with asyncio.TaskGroup() as group:
                requests = group.create_task(_pump(client, to_server, watch))
                replies = group.create_task(_pump(server, to_client, reply))
                await asyncio.wait({requests, replies}, return_when=asyncio.FIRST_COMPLETED)
                requests.cancel()
                replies.cancel()
        finally:
            for writer in (to_client, to_server):
                writer.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: Callable[[bytes], bool]) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(CHUNK):
            if not passes(data):
                return
            sink.write(data)
            await sink.drain()
