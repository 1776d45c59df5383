"""A few connections that stay at hand between statements.

To take one from the driver's pool and to give it back costs as much of Python's time as a small statement itself: a
task, two timers and a look for what the last user left behind. Ours leave nothing behind, so whoever comes next takes
the connection as it lies there. Only one that met an error, or that somebody waits for, goes back to the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from eventhub.store import limits
from eventhub.store.limits import time_left

if TYPE_CHECKING:
    from eventhub.store.postgres.memory import Incarnations

__all__ = ["Lending"]

AT_HAND: Final = 3
"""Two claims and a settlement may be on their way at once."""
STALE_SECONDS: Final = 300.0
"""A connection that was idle for so long may be cut without our knowing: firewalls forget."""
CHECK_AGAIN_SECONDS: Final = 1.0
"""A failover takes longer, and whoever was at work in it has lost his connection."""
CLOSE_SECONDS: Final = 60.0
"""For statements that are under way when the store is closed; then their connections are cut."""


class Lending:
    """Lends connections of a pool, the one that was used last first."""

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], incarnations: Incarnations, *, only_writers: bool = False
    ) -> None:
        self._pool, self._incarnations = pool, incarnations
        self._only_writers = only_writers
        self._returning: set[asyncio.Task[None]] = set()
        self._at_hand: list[tuple[Any, float]] = []
        self._waiting = 0
        """How many wait for the pool: what is free goes there while there are any."""
        self._closing = False

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run one statement, which is its own transaction."""
        left, asked_at = time_left(), monotonic()
        connection = await self._good()
        left = max(left + asked_at - monotonic(), 0.001)
        try:
            rows: list[Any] = await connection.fetch(query, *args, timeout=min(left, limits.STATEMENT_SECONDS))
            self._incarnations.confirm(connection)
        except BaseException as error:
            self._give_up(connection, error)
            raise
        if not self._kept(connection):
            await self._release(connection)
        return rows

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection for several statements, which is cut when the call has taken too long."""
        left, asked_at = time_left(), monotonic()
        connection = await self._good()
        cutting = asyncio.get_running_loop().call_later(left + asked_at - monotonic(), connection.terminate)
        try:
            yield connection
            self._incarnations.confirm(connection)
        except BaseException as error:
            self._give_up(connection, error)
            raise
        finally:
            cutting.cancel()
        if not self._kept(connection):
            await self._release(connection)

    async def identify(self) -> None:
        """The tables are there: from now on it is looked where connections lead to, and first of all this one."""
        connection = await self._take()
        try:
            await self._incarnations.open(getattr(connection, "_con", connection))
        finally:
            await self._release(connection)

    async def _good(self) -> Any:
        """One that leads to the incarnation that the operation under way knows."""
        while True:
            connection = self._next() or await self._take()
            try:
                if self._incarnations.pooled:
                    await self._look_again(connection)
                allowed = self._incarnations.allows(connection)
            except BaseException as error:
                self._give_up(connection, error)
                raise
            if allowed:
                return connection
            connection.terminate()
            await self._release(connection)

    async def _look_again(self, connection: Any) -> None:
        """Behind a pooler a connection may lead to another server than a while ago, without a word."""
        driver = getattr(connection, "_con", connection)
        if monotonic() - driver.checked_at >= CHECK_AGAIN_SECONDS:
            async with asyncio.timeout(time_left()):
                await self._incarnations.check(driver)

    async def look_anew(self) -> None:
        """Let go of all connections that nobody uses: those that come instead look where they lead to."""
        self.forget()
        await self._pool.expire_connections()

    def forget(self) -> None:
        """Close what is at hand: it leads to an incarnation that is over."""
        for connection, _ in self._at_hand:
            if _is_alive(connection):
                connection.terminate()

    def _next(self) -> Any | None:
        """The one that was used last, if it is good."""
        if self._at_hand:
            connection, since = self._at_hand[-1]
            if monotonic() - since < STALE_SECONDS and _is_alive(connection):
                self._at_hand.pop()
                return connection
        return None

    async def _take(self) -> Any:
        while self._at_hand:
            if (connection := self._next()) is not None:
                return connection
            connection, _ = self._at_hand.pop()
            if _is_alive(connection):
                connection.terminate()
            await self._release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=time_left())
        finally:
            self._waiting -= 1

    def _kept(self, connection: Any) -> bool:
        """Keep it at hand, unless there are enough or somebody waits for the pool.

        One that is still in a transaction is the pool's, which ends that: what is written in it would be lost.
        """
        if connection.is_in_transaction():
            return False
        if self._closing or self._waiting or len(self._at_hand) >= AT_HAND or connection.incarnation.standby:
            return False
        self._at_hand.append((connection, monotonic()))
        return True

    def _give_up(self, connection: Any, error: BaseException) -> None:
        """Back to the pool after an error, behind the back of whoever met it: a statement that was under way is
        cancelled first, and a server that hangs does not confirm that.

        One that cannot write is no good where there is another host that perhaps can.
        """
        if self._only_writers and isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            connection.terminate()
        task = asyncio.create_task(self._release(connection))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _release(self, connection: Any) -> None:
        """Back to the pool. If it is lost at this very moment, the pool has it already, and calls that our mistake.

        What cannot be reset is cut by the pool, which says so to whoever gives it back; that is nobody's trouble.
        """
        if _is_alive(connection) and connection.incarnation is not None and connection.incarnation.standby:
            connection.terminate()  # once promoted it is another one
        with suppress(asyncpg.InternalClientError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self._pool.release(connection, timeout=limits.CANCEL_SECONDS)

    async def close(self) -> None:
        """Let go of all connections once nobody uses them."""
        self._closing = True
        while self._at_hand:
            await self._release(self._at_hand.pop()[0])
        if self._returning:
            await asyncio.wait(self._returning)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


def _is_alive(connection: Any) -> bool:
    """Whether it can still be used: one that was lost while it lay there, the pool has taken back by itself."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False
