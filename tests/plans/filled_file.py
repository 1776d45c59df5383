"""An SQLite hub filled by statements of a test, with the statistics that these have left."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from eventhub.store import open_store
from eventhub.store.sqlite.connection import connect


@contextmanager
def filled_file(path: Path, steps: Sequence[str]) -> Iterator[apsw.Connection]:
    """A new hub at ``path`` after all steps, which are one transaction."""
    asyncio.run(_make(path))
    opened = apsw.Connection(str(path))
    with opened:
        for step in steps:
            opened.execute(step)
    opened.close()
    opened = connect(str(path))  # statistics are read when a connection is opened
    yield opened
    opened.close()


async def _make(path: Path) -> None:
    async with open_store(path):
        pass
