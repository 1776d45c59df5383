"""Queues on one fresh store, with a clock that only the test moves."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store

MakeQueue = Callable[..., EventQueue]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def make_queue(store: Store, clock: ManualClock) -> MakeQueue:
    """Queues as separate workers would have them: one store, one clock, each with its own claims."""

    def make(target: Any = None, **options: Any) -> EventQueue:
        return EventQueue(store if target is None else target, **{"clock": clock, **options})

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> EventQueue:
    return make_queue()
