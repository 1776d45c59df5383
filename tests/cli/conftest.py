"""Fixtures of the command line tests."""

from pathlib import Path

import pytest

from tests.cli.support import Command, Filled, fill


@pytest.fixture
def eventhub(tmp_path: Path) -> Command:
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(directory)


@pytest.fixture
def filled(store_url: str) -> Filled:
    return fill(store_url)


@pytest.fixture
def sqlite_filled(sqlite_path: Path) -> Filled:
    """The same on SQLite alone, where the engine makes no difference."""
    return fill(str(sqlite_path))
