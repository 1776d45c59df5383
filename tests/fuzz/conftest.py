"""The whole application in this process, on a store in memory: requests are bytes, and nothing lies in between."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from eventhub.config import Settings
from eventhub.http.app import build_app
from eventhub.http.service import Service
from eventhub.store import open_store

HOST = (b"host", b"127.0.0.1:8080")
KEY = b"x-api-key"


class InProcess:
    """Asks the application directly, as its server would."""

    def __init__(self, runner: asyncio.Runner, service: Service) -> None:
        self._runner = runner
        self._app = build_app(service)
        _, key = runner.run(service.keys.create("fuzz", ["admin", "publish", "read", "work"]))
        self._key = key.encode()

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: bytes = b"",
        headers: Mapping[bytes, bytes] | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        return self._runner.run(self._ask(method, path, body, query, headers or {}))

    async def _ask(
        self, method: str, path: str, body: bytes, query: bytes, headers: Mapping[bytes, bytes]
    ) -> tuple[int, bytes]:
        told: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            told.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": [HOST, *({KEY: self._key} | dict(headers)).items()],
            "client": ("127.0.0.1", 1),
            "scheme": "http",
            "http_version": "1.1",
        }
        async with asyncio.timeout(20):
            await self._app(scope, receive, send)
        return told[0]["status"], b"".join(message.get("body", b"") for message in told[1:])


@pytest.fixture(scope="module")
def ask() -> Iterator[InProcess]:
    """With work, a subscriber, messages and a dead letter, so that small numbers are ids of something."""
    with asyncio.Runner() as runner:
        settings = Settings(roles="api", retry_seconds=0, max_retries=1)
        service = Service(settings, open_store(":memory:"), bytes(32))
        runner.run(service.start())
        asking = InProcess(runner, service)
        kind = {b"content-type": b"application/json"}
        asking(
            "POST",
            "/subscribers",
            b'{"name":"a","url":"https://example.com/","ordering_key":"ordering_key"}',
            headers=kind,
        )
        for number in range(6):
            body = b'{"tags":"a","type":"b","payload":%d,"ordering_key":"k"}' % number
            assert asking("POST", "/events", body, headers=kind)[0] == 201
        assert asking("POST", "/events/subscribe", b'{"tags":"a","worker_id":"w","limit":3}', headers=kind)[0] == 200
        yield asking
        runner.run(service.close())
