"""The limit: an HTTP client alone sends requests that were made beforehand, with no database and nothing to decide.

``python -m eventhub.bench.webhooks.client`` reads orders and writes a report, in JSON. It sends by what the dispatcher
sends by, or by aiohttp as one would otherwise.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, Literal

import msgspec
import uvloop

from eventhub.bench.http.usage import cpu_seconds
from eventhub.core.envelopes import envelope
from eventhub.core.signing import parse_secret, sign
from eventhub.hub.destinations import Destinations
from eventhub.hub.sending import Sender, WebhookRequest
from eventhub.store.claims import Held
from eventhub.store.messages import MessageClaim

__all__ = ["ClientOrders", "ClientReport"]

WARM_UP: Final = 20
"""Requests of each task that are not counted."""
LOOPBACK: Final = "127.0.0.0/8"
_OK: Final = 200

Send = Callable[[WebhookRequest], Awaitable[int | None]]


class ClientOrders(msgspec.Struct, frozen=True, kw_only=True):
    """So many requests with so many on their way, to these URLs in turn; ``payload`` is the text of an event's."""

    client: Literal["sender", "aiohttp"]
    urls: list[str]
    payload: str
    secret: str
    concurrency: int
    count: int


class ClientReport(msgspec.Struct, frozen=True):
    seconds: float
    cpu: float | None
    """Percent of a core."""


def requests(orders: ClientOrders) -> list[WebhookRequest]:
    """One for each URL, signed, as the dispatcher makes them."""
    made = []
    now = datetime.now(UTC)
    for number, url in enumerate(orders.urls):
        claim = MessageClaim(
            held=Held(number, 1, None),
            subscriber=number,
            event_id=number,
            type="bench.a",
            payload=orders.payload,
            metadata=None,
            ordering_key=None,
            created_at=now,
            attempts=1,
            failures=0,
            max_attempts=4,
            claimed_at=now,
        )
        headers, body = envelope(claim, "standard", source="urn:eventhub:bench")
        name, timestamp = f"msg_0123456789ab_{1_000_000 + number}", int(now.timestamp())
        headers |= {
            "user-agent": "eventhub-bench",
            "webhook-id": name,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign([parse_secret(orders.secret)], name, timestamp, body),
        }
        made.append(WebhookRequest(url=url, headers=headers, body=body))
    return made


@asynccontextmanager
async def _sender(limit: int) -> Any:
    sender = Sender(Destinations.parse([LOOPBACK]), limit=limit)
    await sender.start()

    async def send(request: WebhookRequest) -> int | None:
        return (await sender.send(request)).status

    try:
        yield send
    finally:
        await sender.close()


@asynccontextmanager
async def _aiohttp(limit: int) -> Any:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=10, connect=5)
    connector = aiohttp.TCPConnector(limit=limit)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:

        async def send(request: WebhookRequest) -> int | None:
            posted = session.post(request.url, data=request.body, headers=request.headers, allow_redirects=False)
            async with posted as answer:
                await answer.read()
                return answer.status

        yield send


async def run(orders: ClientOrders) -> ClientReport:
    """Send; every answer must be 200."""
    made = requests(orders)
    opened = _sender if orders.client == "sender" else _aiohttp
    async with opened(orders.concurrency) as send:
        await _send_all(send, made, orders.concurrency, WARM_UP * orders.concurrency)
        gc.collect()
        gc.freeze()
        before, started = cpu_seconds(os.getpid()), perf_counter()
        await _send_all(send, made, orders.concurrency, orders.count)
        seconds, after = perf_counter() - started, cpu_seconds(os.getpid())
    return ClientReport(seconds, None if before is None or after is None else (after - before) / seconds * 100)


async def _send_all(send: Send, made: list[WebhookRequest], concurrency: int, count: int) -> None:
    left: Iterator[int] = iter(range(count))

    async def task() -> None:
        for number in left:
            status = await send(made[number % len(made)])
            if status != _OK:
                raise RuntimeError(f"The receiver answered {status} instead of {_OK}.")

    await asyncio.gather(*(task() for _ in range(concurrency)))


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=ClientOrders)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(run(orders))
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
