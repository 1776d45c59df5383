"""Hosts whose clocks are ten minutes off: signatures and leases go by the database's clock."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from eventhub.core.events import Status
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store
from eventhub.testing.torture.children import Nursery
from eventhub.testing.torture.roles.publisher import QUEUE
from tests.crash.hub_process import LOCAL, SECRET
from tests.crash.wrong_clock import set_clock
from tests.hub.receiver import Arrival, Receiver

pytestmark = [pytest.mark.alone]

SOON = 30.0
TIMES = {"lease": 3.0, "hold": 4.0}
"""Handlers take longer than a lease, which their workers therefore extend."""


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


async def _status_when_settled(store: Store, event_id: int) -> Status:
    async with asyncio.timeout(SOON):
        while True:
            event = await store.event(event_id)
            assert event is not None
            if event.status not in (Status.PENDING, Status.PROCESSING):
                return event.status
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("shift", ["-10m", "+10m"])
async def test_webhooks_of_a_dispatcher_with_a_wrong_clock_are_accepted(
    postgres_url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: str
) -> None:
    secrets: list[str] = []

    def verify(arrival: Arrival) -> int:
        """As consumers do: what was signed more than five minutes from now is refused, and that is final."""
        try:
            Webhook(secrets[0]).verify(arrival.body.decode(), arrival.headers)
        except WebhookVerificationError:
            return 400
        return 200 if arrival.turn > 1 else 503

    set_clock(monkeypatch, shift)
    hub = Hub(store, secret=SECRET, allow_private=LOCAL, roles=())
    async with Receiver(verify) as receiver:
        _, secret = await hub.subscribers.create(
            Subscriber(name="one", url=receiver.url, retry_backoff_seconds=(0.1, 0.1))
        )
        secrets.append(secret)
        with Nursery(tmp_path, packages=["tests.crash"]) as nursery:
            nursery.spawn("hub_process", "hub-a", url=postgres_url)
            event = await hub.publish("clock.test", 1)
            assert await _status_when_settled(store, event) is Status.COMPLETED
        assert [arrival.turn for arrival in receiver.arrivals] == [1, 2]


async def test_leases_of_workers_with_wrong_clocks_are_neither_long_nor_short(
    postgres_url: str, store: Store, tmp_path: Path
) -> None:
    queue = EventQueue(store, queue=QUEUE)
    events = [await queue.publish("clock.test", {"token": str(number)}) for number in range(6)]
    nurseries = []
    try:
        for name, shift in (("slow", "-10m"), ("fast", "+10m")):
            (tmp_path / name).mkdir()
            with pytest.MonkeyPatch.context() as patch:
                set_clock(patch, shift)
                nursery = Nursery(tmp_path / name)
            nurseries.append(nursery)
            nursery.spawn(
                "worker", f"worker-{name}", url=postgres_url, style="manager", seed=1, concurrency=2, batch=2, **TIMES
            )
        for event in events:
            assert await _status_when_settled(store, event.id) is Status.COMPLETED
            assert [str(entry.action) for entry in await store.log(event.id)] == ["PUBLISHED", "PICKED", "COMPLETED"]
        assert len({entry.worker for event in events for entry in await store.log(event.id) if entry.worker}) > 1
    finally:
        for nursery in nurseries:
            nursery.close()
