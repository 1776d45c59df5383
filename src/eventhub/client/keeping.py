"""Keeping leases, in a thread with an event loop of its own: a handler that blocks its loop keeps its event too."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from eventhub.client.answers import ClaimedEvent
from eventhub.client.api import Client
from eventhub.errors import AlreadyReported, ClaimLost, EventHubError, EventNotFound
from eventhub.handling.logs import get_logger

__all__ = ["Keeper", "Kept"]

log = get_logger("eventhub.client")

AT_ONCE: Final = 20
"""Heartbeats on their way at the same time."""
LOOKS: Final = 4
"""How often leases are looked at in the time after which they are extended."""
LAST_SECONDS: Final = 5.0


class Kept:
    """A claim and, by this process's clock, when its lease began and until when it lasts."""

    __slots__ = ("event", "lease", "longest", "since")

    def __init__(self, event: ClaimedEvent, lease: float, since: float, limit: float = math.inf) -> None:
        self.event = event
        self.lease = lease
        self.since = since
        self.longest = since + limit
        """Until when it is extended: while the handler is within its time limit."""

    @property
    def until(self) -> float:
        return self.since + self.lease


class Keeper:
    """Extends the leases of what it was given, a third of the lease after the last time."""

    def __init__(
        self, make_client: Callable[[float], Client], worker_id: str, lease: float, on_lost: Callable[[Kept], None]
    ) -> None:
        self._make_client = make_client
        self._worker_id = worker_id
        self._lease = lease
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._kept: set[Kept] = set()
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._stop_in_thread: Callable[[], object] | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="eventhub-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """Stop; heartbeats that are on their way are given up."""
        with self._lock:
            self._stopping = True
            stop = self._stop_in_thread
        if stop is not None:
            with suppress(RuntimeError):  # the thread's loop has ended by itself
                stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._ended.wait()

    def keep(self, kept: Kept) -> None:
        with self._lock:
            self._kept.add(kept)

    def forget(self, kept: Kept) -> None:
        with self._lock:
            self._kept.discard(kept)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._go())
        except asyncio.CancelledError:
            pass  # by close
        except Exception:  # the leases will end, and the log says why
            log.exception("leases are no longer extended", worker_id=self._worker_id)
        finally:
            with suppress(RuntimeError):  # the worker's loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._ended.set)

    async def _go(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio.run made it
        with self._lock:
            if self._stopping:
                return
            self._stop_in_thread = lambda: loop.call_soon_threadsafe(task.cancel)
        third = self._lease / 3
        async with self._make_client(third) as client:
            while True:
                await asyncio.sleep(third / LOOKS)
                now = monotonic()
                with self._lock:
                    due = [kept for kept in self._kept if now - kept.since >= third and now < kept.longest]
                if due:
                    await self._extend_all(client, due)

    async def _extend_all(self, client: Client, due: list[Kept]) -> None:
        waiting = iter(due)
        troubles: list[EventHubError] = []

        async def work() -> None:
            for kept in waiting:
                try:
                    await self._extend(client, kept)
                except EventHubError as error:
                    troubles.append(error)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(due)))))
        if troubles:
            log.warning(
                "leases not extended",
                worker_id=self._worker_id,
                events=len(troubles),
                error=f"{type(troubles[0]).__name__}: {troubles[0]}",
            )

    async def _extend(self, client: Client, kept: Kept) -> None:
        asked_at = monotonic()
        try:
            await client.heartbeat(kept.event, self._worker_id, lease=self._lease)
        except (ClaimLost, AlreadyReported, EventNotFound):
            self.forget(kept)
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_lost, kept)
        else:
            kept.since = asked_at
