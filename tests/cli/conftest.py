"""Fixtures of the command line tests."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.listening import Listen, Listener
from tests.cli.support import EVENTHUB, Command, Filled, fill


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


@pytest.fixture
def listen(eventhub: Command) -> Iterator[Listen]:
    with ExitStack() as stack:

        def start(*arguments: str, env: Mapping[str, str] | None = None) -> Listener:
            process = subprocess.Popen(
                [EVENTHUB, "listen", "--port", "0", *arguments],
                cwd=eventhub.directory,
                env={**eventhub.environment, **(env or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return Listener(process)

        yield start
