"""A consumer of webhooks that does as it is told and remembers everything."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Self

import msgspec
from aiohttp import web

Behaviour = Callable[["Arrival"], int | web.Response | Awaitable[int | web.Response]]


class Arrival(msgspec.Struct):
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    turn: int
    """How many requests with this webhook-id have come, this one included."""
    cut: Callable[[], None]
    """Drops the connection."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.body)["data"]


class Receiver:
    """Answers 200 unless ``behave`` says otherwise."""

    def __init__(self, behave: Behaviour = lambda _: 200) -> None:
        self.behave = behave
        self.arrivals: list[Arrival] = []
        self.url = ""
        self.most_at_once = 0
        self._at_once = 0
        self._came = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=4_000_000)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.url = f"http://127.0.0.1:{port}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        turn = 1 + sum(before.headers.get("webhook-id") == headers.get("webhook-id") for before in self.arrivals)
        assert request.transport is not None
        arrival = Arrival(request.path, headers, body, turn, request.transport.abort)
        self.arrivals.append(arrival)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        async with self._came:
            self._came.notify_all()
        try:
            answer = self.behave(arrival)
            answer = await answer if inspect.isawaitable(answer) else answer
        finally:
            self._at_once -= 1
        return web.Response(status=answer) if isinstance(answer, int) else answer

    async def wait_for(self, count: int, seconds: float = 20.0) -> list[Arrival]:
        """Until so many requests have come."""
        async with asyncio.timeout(seconds), self._came:
            await self._came.wait_for(lambda: len(self.arrivals) >= count)
        return self.arrivals
