"""Fixtures of the documentation tests."""

from pathlib import Path

import pytest

from tests.cli.support import Command


@pytest.fixture
def eventhub(tmp_path: Path) -> Command:
    """The command in a directory of its own, where examples run too."""
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(directory)
