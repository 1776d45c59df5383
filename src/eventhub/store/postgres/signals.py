"""Wake-ups between processes by LISTEN and NOTIFY, over a connection of its own, never inside a caller's transaction.

NOTIFY takes a lock at commit, so a burst of publishes becomes one signal every few milliseconds. The first after a
pause goes with the commit that it tells of, which spares whoever waits a round trip. When the connection is down
nothing is lost: everyone also looks by himself, twice a second.

Behind a pooler that keeps no sessions nobody can listen, unless there is a URL that leads past it: signals are sent
all the same, for those who have one.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import structlog

from eventhub.errors import EventHubError, StoreError
from eventhub.store.limits import begin_afresh
from eventhub.store.opening import shown
from eventhub.store.postgres.connection import translated, understood
from eventhub.store.postgres.server import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from eventhub.store.wakeups import Wakeups

__all__ = ["POLL_SECONDS", "Signals"]

CHANNEL = "eventhub"
DEBOUNCE_SECONDS = 0.005
EVERYONE = "*"
NOTIFY = (
    """SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, queue) FROM unnest($2::text[]) AS queue"""
)
"""The setting is for this transaction only: a lost signal costs a look, and no disk need be waited for."""
POLL_SECONDS = 0.5
"""How often whoever waits looks by himself while nobody can tell him anything."""

log = structlog.get_logger("eventhub.store")


class Signals:
    """Sends and receives wake-ups; starts on first use and mends its own connection."""

    def __init__(
        self,
        server: Server,
        wakeups: Wakeups,
        check: Callable[[Any], Awaitable[None]],
        send: Callable[..., Awaitable[object]],
    ) -> None:
        """``check`` looks where a new connection leads to; ``send`` runs a statement on some connection, for when there
        is none of our own.

        Raises like Server when ``listen_url`` cannot be read.
        """
        self._server = server
        self._source = Server(server.listen_url) if server.listen_url else server
        """Where signals come from: the URL that leads past a pooler, or the one that everything goes over."""
        self._wakeups = wakeups
        self._check = check
        self._send = send
        self._pending: set[str] = set()
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._own_pid: int | None = None
        self._stopped = False
        self._carried_at = 0.0
        self._deaf = not server.listen_url and not server.keeps_sessions
        """Whether nothing can be heard, now or later."""
        self._said = False
        self.listening = False
        """Whether wake-ups of other processes arrive now."""

    def listen(self) -> None:
        """Somebody waits: begin to listen, or say once why nobody can."""
        self._start()
        if self._deaf and not self._said:
            self._said = True
            log.warning(
                "no wake-ups through the pooler: new events are looked for twice a second",
                database=shown(self._server.url),
                remedy="Set listen_url to the URL of the database itself.",
            )

    def _start(self) -> None:
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    def send(self, queue: str | None) -> None:
        """Tell the other processes that there may be work."""
        self._pending.add(EVERYONE if queue is None else queue)
        self._something.set()
        self._start()

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

    async def trial(self) -> str | None:
        """None if this process can be woken by others, or why not."""
        source = self._source
        try:
            with translated(source.url), understood(source.url):
                connection: Any = await source.connect()
        except EventHubError as error:
            return str(error)
        connection.terminate()
        return None if source.keeps_sessions else f"{shown(source.url)} is a pooler that keeps no sessions"

    async def _run(self) -> None:
        begin_afresh()
        pause = 0.1
        source = self._source
        while source.keeps_sessions:
            try:
                connection = await self._connect()
            except EventHubError as error:
                log.debug("cannot listen", database=shown(source.url), error=str(error))
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spread, not secrecy
                pause = min(pause * 2, 5.0)
                continue
            pause = 0.1
            try:
                if source.keeps_sessions:
                    await self._listen(connection)
            except StoreError:
                continue
            finally:
                self.listening = False
                connection.terminate()
        await self._send_only()

    async def _connect(self) -> Any:
        source = self._source
        with translated(source.url), understood(source.url):
            connection = await source.connect()
            if source is not self._server:
                return connection  # nothing but signals comes this way
            try:
                await self._check(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    async def _listen(self, connection: Any) -> None:
        with translated(self._server.url):
            self._own_pid = connection.get_server_pid()
            await connection.add_listener(CHANNEL, self._heard)
            connection.add_termination_listener(lambda _: self._something.set())
            self.listening = True
            self._wakeups.wake()  # whatever was signalled while nobody listened
            while not connection.is_closed():
                await self._something.wait()
                self._something.clear()
                await self._tell(connection.fetch)

    async def _send_only(self) -> None:
        self._deaf = True
        while True:
            await self._something.wait()
            self._something.clear()
            with suppress(StoreError):
                await self._tell(self._send)

    async def _tell(self, run: Callable[..., Awaitable[object]]) -> None:
        pending, self._pending = self._pending, set()
        if pending:
            await run(NOTIFY, CHANNEL, list(pending))
            await asyncio.sleep(DEBOUNCE_SECONDS)

    def _heard(self, _: Any, pid: int, __: str, queue: str) -> None:
        # The last signals may arrive when the connection is gone already, so it is not asked.
        if pid != self._own_pid:  # this process has woken its own already
            self._wakeups.wake(None if queue == EVERYONE else queue)
