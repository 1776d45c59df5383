"""Fixtures of the documentation tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Command
from tests.client.support import Hub


@pytest.fixture
def eventhub(tmp_path: Path) -> Command:
    """The command in a directory of its own, where examples run too."""
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(directory, afresh=True)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A server for examples that speak to one."""
    with Hub(tmp_path, "hub.db") as running:
        yield running
