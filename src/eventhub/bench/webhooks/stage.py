"""A fresh database with a hub that publishes, a receiver, and the subscribers between them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.webhooks.client import LOOPBACK
from eventhub.bench.webhooks.processes import Receiver, receiver
from eventhub.bench.webhooks.receiver import ReceiverOrders
from eventhub.bench.workloads import Context
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.hub.credentials import new_secret
from eventhub.hub.fan_out import FanOut

__all__ = ["EVERY_B", "HOT_B", "A", "B", "Stage", "event", "stage"]

A: Final = "bench.a"
B: Final = "bench.b.one"
HOT_B: Final = "bench.b.hot"
EVERY_B: Final = "bench.b.*"
KEY: Final = "payload.key"
"""Where an ordered subscriber finds the key."""


def event(number: int, kind: str, key: str = "") -> dict[str, Any]:
    """An event that says its place: the number grows within its key."""
    details = {"ordering_key": key} if key else {}
    return {"type": kind, "payload": {"key": key, "number": number, **PAYLOAD}, **details}


class Stage:
    """What a measurement has to work with."""

    def __init__(self, url: str, hub: Hub, to: Receiver, secret: str, secret_file: Path) -> None:
        self.url, self.hub, self.receiver = url, hub, to
        self.secret, self.secret_file = secret, secret_file
        self._fan_out = FanOut(hub.store, hub.numbers)

    async def subscribe(self, kinds: Sequence[str], *, ordered: bool = False, paths: Sequence[str] = ()) -> None:
        """A subscriber for each of these types, each at a path of its own."""
        for number, kind in enumerate(kinds):
            path = paths[number] if paths else f"/{number}"
            subscriber = Subscriber(
                name=f"bench-{number}",
                url=f"{self.receiver.base}{path}",
                event_type=kind,
                ordering_key=KEY if ordered else None,
            )
            await self.hub.subscribers.create(subscriber, self.secret)

    async def hand_out(self) -> int:
        """Make messages of everything that was published, in this process; how many there are."""
        messages = 0
        while True:
            done = await self._fan_out.hand_out()
            messages += done.messages
            if not (done.events or done.stale):
                return messages


@asynccontextmanager
async def stage(context: Context, *, ordered: bool = False, hang_seconds: float = 10.0) -> AsyncIterator[Stage]:
    secret = new_secret()
    orders = ReceiverOrders(secret=secret, ordered=ordered, hang_seconds=hang_seconds)
    with tempfile.TemporaryDirectory(prefix="eventhub-bench-") as directory:
        file = Path(directory) / "secret"
        async with (
            context.databases.fresh() as url,
            receiver(orders) as to,
            Hub(url, secret=file, allow_private=[LOOPBACK], roles=()) as hub,
        ):
            yield Stage(url, hub, to, secret, file)
