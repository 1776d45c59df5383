"""Buses that are gone after the test, however it ended."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from eventhub.bus import DLQInspector, EventBus
from eventhub.store import Store, open_store
from tests.bus.support import LIVELY, QUICK

MakeBus = Callable[..., EventBus]


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
async def make_bus(store: Store) -> AsyncIterator[MakeBus]:
    """Buses on the test's store, quick to retry unless told otherwise; not started yet."""
    made: list[EventBus] = []

    def make(target: Any = None, **options: Any) -> EventBus:
        bus = EventBus(store if target is None else target, **{"retry": QUICK, "tuning": LIVELY, **options})
        made.append(bus)
        return bus

    yield make
    for bus in made:
        await bus.destroy()


@pytest.fixture
async def bus(make_bus: MakeBus) -> EventBus:
    """A started bus with quick retries."""
    return await make_bus().start()


@pytest.fixture
def dlq(store: Store) -> DLQInspector:
    return DLQInspector(store)


@pytest.fixture
def status(store: Store) -> Callable[[int], Awaitable[str]]:
    async def of(event_id: int) -> str:
        event = await store.event(event_id)
        return "unknown" if event is None else str(event.status)

    return of
