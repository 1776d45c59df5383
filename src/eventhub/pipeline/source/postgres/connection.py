"""A connection to PostgreSQL for code that waits, by the driver that the store has: statements, and rows as Arrow."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread, current_thread
from typing import Any, Final, TypeVar

import pyarrow as pa
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eventhub.errors import StoreError
from eventhub.pipeline.source.postgres.texts import SETTINGS, from_copy, to_copy
from eventhub.store.postgres.connection import connect, connect_session, translated

__all__ = ["Connection", "connected"]

T = TypeVar("T")
BATCH_BYTES: Final = 4 << 20
AHEAD: Final = 2
"""Batches that are fetched before they are asked for."""
LITTLE: Final = 128 << 10
GATHER_SECONDS: Final = 0.001
"""The driver wakes up for every 8 kB that the server writes, which costs as much as for many of them: after little,
more may gather in the connection's buffers."""
CLOSE_SECONDS: Final = 5


@contextmanager
def connected(url: str, *, session: bool = False) -> Iterator[Connection]:
    """A connection for a moment; with ``session`` one past any pooler, which keeps what is left in it."""
    with start_blocking_portal() as portal:
        driver = portal.call(lambda: (connect_session if session else connect)(url, **SETTINGS))
        leave = partial(_leave, portal, driver, portal.call(current_thread))
        atexit.register(leave)
        try:
            yield Connection(portal, driver, url)
        finally:
            atexit.unregister(leave)
            with suppress(RuntimeError, StoreError), translated(url):  # Python ends, or the server does not answer
                portal.call(lambda: driver.close(timeout=CLOSE_SECONDS))
            with suppress(RuntimeError):
                portal.call(driver.terminate)


def _leave(portal: BlockingPortal, driver: Any, thread: Thread) -> None:
    """Python ends while somebody reads: later, there will be no thread to tell that he does not go on."""
    portal.call(driver.terminate)
    portal.call(portal.stop, True)
    thread.join()


class Connection:
    """The driver works on a thread of its own, so that rows arrive while those before them are in use."""

    def __init__(self, portal: BlockingPortal, driver: Any, url: str) -> None:
        self._portal, self._driver, self._url = portal, driver, url

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._ask(lambda: self._driver.fetch(query))]

    def value(self, query: str) -> Any:
        """The first column of the first row, or None."""
        return self._ask(lambda: self._driver.fetchval(query))

    def run(self, statement: str) -> int:
        """Returns how many rows it changed."""
        told: str = self._ask(lambda: self._driver.execute(statement))
        count = told.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def read(self, query: str, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        """What a query without parameters finds. Who stops in the middle can do no more with this connection."""
        texts: asyncio.Queue[bytes] = asyncio.Queue(AHEAD)
        copying = self._portal.start_task_soon(self._fetch, query, texts)
        try:
            while text := self._portal.call(texts.get):
                yield from_copy(text, schema)
            with translated(self._url):
                copying.result()
        finally:
            copying.cancel()

    async def _fetch(self, query: str, texts: asyncio.Queue[bytes]) -> None:
        """An empty text is the end."""
        lines: list[bytes] = []
        size = 0

        async def take(rows: bytes) -> None:
            """Rows are never cut: the server sends each in one message, and the driver passes on whole messages."""
            nonlocal size
            lines.append(rows)
            size += len(rows)
            if size >= BATCH_BYTES:
                text = b"".join(lines)
                lines.clear()
                size = 0
                await texts.put(text)
            elif len(rows) < LITTLE:
                await asyncio.sleep(GATHER_SECONDS)

        try:
            await self._driver.copy_from_query(query, output=take, format="text")
            if lines:
                await texts.put(b"".join(lines))
        finally:
            await texts.put(b"")

    def write(self, rows: pa.RecordBatch, table: str, *, schema: str | None = None) -> None:
        """Into the columns of the same names."""
        if not rows.num_rows:
            return
        step = max(rows.num_rows * BATCH_BYTES // max(rows.nbytes, 1), 1)

        async def lines() -> AsyncIterator[pa.Buffer]:
            for first in range(0, rows.num_rows, step):
                yield to_copy(rows.slice(first, step))

        self._ask(
            lambda: self._driver.copy_to_table(
                table, source=lines(), columns=rows.schema.names, schema_name=schema, format="text"
            )
        )

    def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        asked = self._portal.start_task_soon(question)
        try:
            with translated(self._url):
                return asked.result()
        finally:
            asked.cancel()  # whoever is interrupted leaves nothing running on the server
