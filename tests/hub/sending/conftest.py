"""Every test of sending runs on both event loops: the standard one and uvloop, which the server uses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from eventhub.hub.destinations import Destinations
from eventhub.hub.sending import Sender


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """One that may send to this machine."""
    made = Sender(Destinations.parse(["127.0.0.0/8"]))
    await made.start()
    yield made
    await made.close()
