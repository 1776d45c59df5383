"""A running hub for all tests of a module, one of its own where it gets killed, and tags that nobody else uses."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from eventhub import Client
from tests.client.support import Hub

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A failed job is ready again at once."""
    directory = tmp_path_factory.mktemp("hub")
    with Hub(directory, "hub.db", "--retry-seconds", "0") as running:
        yield running


@pytest.fixture
def mortal(store_url: str, tmp_path: Path) -> Iterator[Hub]:
    """A hub to kill, on either engine; not started yet."""
    directory = tmp_path / "mortal"
    directory.mkdir()
    dying = Hub(directory, store_url, "--retry-seconds", "0")
    yield dying
    dying.kill()


@pytest.fixture
async def client(hub: Hub) -> AsyncIterator[Client]:
    async with Client(hub.url) as opened:
        yield opened


@pytest.fixture
def tag() -> str:
    return f"tag-{next(_numbers)}"
