"""A consumer of webhooks on this machine: it checks every signature, answers as it is told, and remembers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec
from aiohttp import web

from eventhub.cli.receiving import check_signature, read_content
from eventhub.core.signing import parse_secret

__all__ = ["Arrival", "Consumer"]

PATIENCE: Final = 60.0
UNAUTHORIZED: Final = 401
GOOD: Final = range(200, 300)


class Arrival(msgspec.Struct, frozen=True):
    """A webhook whose signature was good; ``turn`` says how often this message has come, this time included."""

    name: str
    type: str
    data: Any
    turn: int


class Consumer:
    """Serves ``<url>/<name>`` for each subscriber that it was told the secret of, for the length of a block."""

    def __init__(self, answer: Callable[[Arrival], int]) -> None:
        self.url = ""
        self.taken: list[Arrival] = []
        """Those that were answered with 2xx, each message once, in the order of their arrival."""
        self.requests = self.failed = self.refused = self.duplicates = 0
        self._answer = answer
        self._secrets: dict[str, bytes] = {}
        self._turns: Counter[str] = Counter()
        self._have: set[str] = set()
        self._news = asyncio.Condition()
        app = web.Application()
        app.router.add_post("/{name}", self._receive)
        self._runner = web.AppRunner(app, access_log=None)

    def expect(self, name: str, secret: str) -> None:
        """From now on webhooks for this name are taken, if they are signed with its secret."""
        self._secrets[name] = parse_secret(secret)

    def of(self, name: str) -> list[Arrival]:
        return [arrival for arrival in self.taken if arrival.name == name]

    async def until(self, reached: Callable[[], bool]) -> bool:
        """Wait until this is so; False when it takes too long."""
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(reached)
        except TimeoutError:
            return False
        return True

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body, name = await request.read(), request.match_info["name"]
        headers = {key.lower(): value for key, value in request.headers.items()}
        secret = self._secrets.get(name)
        self.requests += 1
        if secret is None or check_signature([secret], headers, body, datetime.now(UTC)) is not None:
            self.refused += 1
            return web.Response(status=UNAUTHORIZED)
        message, content = headers["webhook-id"], read_content(headers, body)
        self._turns[message] += 1
        arrival = Arrival(name, content.type or "", content.payload, self._turns[message])
        status = self._answer(arrival)
        async with self._news:
            self._remember(message, arrival, good=status in GOOD)
            self._news.notify_all()
        return web.Response(status=status)

    def _remember(self, message: str, arrival: Arrival, *, good: bool) -> None:
        if not good:
            self.failed += 1
        elif message in self._have:
            self.duplicates += 1
        else:
            self._have.add(message)
            self.taken.append(arrival)
