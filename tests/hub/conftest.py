"""Hubs on either engine and consumers that do as they are told, all gone after the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import CrewSettings, Hub
from eventhub.hub.lines import CircuitRules
from eventhub.store import Store, open_store
from tests.hub.receiver import Behaviour, Receiver

SECRET = b"a secret of thirty-two bytes....."[:32]
QUICK = CrewSettings(
    circuit=CircuitRules(failures=5, lasting=timedelta(0), rest=timedelta(milliseconds=300)),
)
"""Circuits open early and rest for a moment."""

MakeHub = Callable[..., Awaitable[Hub]]
MakeReceiver = Callable[..., Awaitable[Receiver]]
Subscribe = Callable[..., Awaitable[int]]


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def make_hub(store: Store, stack: AsyncExitStack) -> MakeHub:
    async def make(target: Store | None = None, **options: Any) -> Hub:
        options = {"secret": SECRET, "allow_private": ["127.0.0.0/8"], **options}
        return await stack.enter_async_context(Hub(target or store, **options))

    return make


@pytest.fixture
async def make_receiver(stack: AsyncExitStack) -> MakeReceiver:
    async def make(behave: Behaviour = lambda _: 200) -> Receiver:
        return await stack.enter_async_context(Receiver(behave))

    return make


@pytest.fixture
async def hub(make_hub: MakeHub) -> Hub:
    return await make_hub()


@pytest.fixture
async def receiver(make_receiver: MakeReceiver) -> Receiver:
    return await make_receiver()


@pytest.fixture
def subscribe(hub: Hub, receiver: Receiver) -> Subscribe:
    """A subscriber at the receiver, which tries again at once, twice, unless told otherwise."""

    async def make(name: str = "one", **fields: Any) -> int:
        fields = {"url": receiver.url, "retry_backoff_seconds": (0.0, 0.0), **fields}
        view, _ = await hub.subscribers.create(Subscriber(name=name, **fields))
        return view.id

    return make
