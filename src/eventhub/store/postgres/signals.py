"""LISTEN and NOTIFY over one direct connection: wake-ups between processes, never inside a caller's transaction.

NOTIFY takes a lock at commit, so a burst of publishes becomes one signal every few milliseconds. The first after a
pause goes with the commit that it tells of, which spares whoever waits a round trip. When the connection is down
nothing is lost: everyone also looks by itself from time to time.
"""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import TYPE_CHECKING, Any

from eventhub.errors import StoreError
from eventhub.store.postgres.connection import connect, translated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from eventhub.store.wakeups import Wakeups

__all__ = ["Signals"]

CHANNEL = "eventhub"
DEBOUNCE_SECONDS = 0.005
EVERYONE = "*"
NOTIFY = "SELECT pg_notify($1, queue) FROM unnest($2::text[]) AS queue"


class Signals:
    """Sends and receives wake-ups; starts on first use and mends its own connection."""

    def __init__(self, url: str, wakeups: Wakeups, check: Callable[[Any], Awaitable[None]]) -> None:
        self._url = url
        self._wakeups = wakeups
        self._check = check
        """Looks where a new connection leads to."""
        self._pending: set[str] = set()
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._own_pid: int | None = None
        self._stopped = False
        self._carried_at = 0.0

    def start(self) -> None:
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    def send(self, queue: str | None) -> None:
        """Tell the other processes that there may be work."""
        self._pending.add(EVERYONE if queue is None else queue)
        self._something.set()
        self.start()

    def carried(self, queues: Iterable[str]) -> list[str] | None:
        """The signals that a commit is to take along; None when there was one just now, and ``send`` has to do it."""
        now = monotonic()
        if self._pending or now - self._carried_at < DEBOUNCE_SECONDS:
            return None
        self._carried_at = now
        return list(queues)

    async def stop(self) -> None:
        """For good: whoever is late with a signal does not start it again."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                connection = await self._connect()
            except StoreError:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spread, not secrecy
                pause = min(pause * 2, 5.0)
                continue
            pause = 0.1
            try:
                with translated(self._url):
                    self._own_pid = connection.get_server_pid()
                    await connection.add_listener(CHANNEL, self._heard)
                    connection.add_termination_listener(lambda _: self._something.set())
                    self._wakeups.wake()  # whatever was signalled while nobody listened
                    await self._send_until_closed(connection)
            except StoreError:
                continue
            finally:
                connection.terminate()

    async def _connect(self) -> Any:
        connection = await connect(self._url, synchronous_commit="off")
        try:
            with translated(self._url):
                await self._check(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _send_until_closed(self, connection: Any) -> None:
        while not connection.is_closed():
            await self._something.wait()
            self._something.clear()
            pending, self._pending = self._pending, set()
            if pending:
                await connection.execute(NOTIFY, CHANNEL, list(pending))
                await asyncio.sleep(DEBOUNCE_SECONDS)

    def _heard(self, _: Any, pid: int, __: str, queue: str) -> None:
        # The last signals may arrive when the connection is gone already, so it is not asked.
        if pid != self._own_pid:  # this process has woken its own already
            self._wakeups.wake(None if queue == EVERYONE else queue)
