"""The live stream: one reader a process for all who watch it, and only while somebody does.

    store ──▶ reader, about once a second ──▶ a bounded buffer for each watcher ──▶ its connection

Whoever reads too slowly loses the oldest rows of the log, and is told how many; of the overview only the latest waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.errors import EventHubError
from eventhub.handling.logs import get_logger
from eventhub.http.bodies.live import LiveEntry, LiveLog
from eventhub.http.problems import Problem

if TYPE_CHECKING:
    from eventhub.core.events import LogEntry
    from eventhub.http.bodies.overview import Overview
    from eventhub.http.dashboard.overseer import Overseer
    from eventhub.store import Store

__all__ = ["Live", "Watcher"]

log = get_logger("eventhub.http")

MOST_WATCHERS: Final = 100
MAX_WATCHERS_OF_KEY: Final = 20
MOST_ENTRIES: Final = 100
"""Rows of the log that are read in a round, and that wait for one watcher: the newest."""
READ_EVERY: Final = 1.0
READ_SHARE: Final = 20
"""A round that took t seconds is not repeated before this many times t."""
ALIVE_EVERY: Final = 15.0
"""Seconds after which a silent stream says that it is there, and whoever watches is looked at again."""
RETRY: Final = b"retry: 2000\n\n"
ALIVE: Final = b": here\n\n"

Welcome = Callable[[], Awaitable[bool]]


class Watcher:
    """What waits for one connection."""

    def __init__(self, key_id: str = "") -> None:
        self.key_id = key_id
        self._overview: bytes | None = None
        self._entries: deque[LiveEntry] = deque(maxlen=MOST_ENTRIES)
        self._missed = 0
        self._news = asyncio.Event()
        self.over = asyncio.Event()

    def show(self, overview: bytes) -> None:
        """A later overview takes the place of one that was not sent yet."""
        self._overview = overview
        self._news.set()

    def tell(self, entries: list[LiveEntry], missed: int) -> None:
        dropped = max(len(self._entries) + len(entries) - MOST_ENTRIES, 0)
        self._entries.extend(entries)
        self._missed += missed + dropped
        self._news.set()

    @property
    def ended(self) -> bool:
        return self.over.is_set()

    def end(self) -> None:
        self.over.set()
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Until there is something to send, or it is over; at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def take(self) -> bytes:
        """Everything that waits, as it is sent."""
        self._news.clear()
        sent = b""
        if self._overview is not None:
            sent, self._overview = _event(b"overview", self._overview), None
        if self._entries or self._missed:
            told = LiveLog(entries=list(self._entries), missed=self._missed)
            sent += _event(b"log", msgspec.json.encode(told))
            self._entries.clear()
            self._missed = 0
        return sent


class Live:
    """The watchers of one process and the task that reads for them."""

    def __init__(self, store: Store, overseer: Overseer) -> None:
        self._store = store
        self._overseer = overseer
        self._watchers: set[Watcher] = set()
        self._reading: asyncio.Task[None] | None = None
        self._shown: bytes | None = None
        self._latest: deque[LiveEntry] = deque(maxlen=MOST_ENTRIES)
        self._stopped = False

    def __len__(self) -> int:
        return len(self._watchers)

    def join(self, key_id: str = "") -> Watcher:
        """One more watcher, if there is room, for all and for this key."""
        if self._stopped:
            raise Problem(503, "shutting-down", "This process is shutting down.", retry_after=1)
        if len(self._watchers) >= MOST_WATCHERS:
            raise Problem(
                503, "too-many-watchers", f"{MOST_WATCHERS} streams are open here already. Close some.", retry_after=30
            )
        if key_id and sum(watcher.key_id == key_id for watcher in self._watchers) >= MAX_WATCHERS_OF_KEY:
            raise Problem(
                429,
                "too-many-watchers",
                f"{MAX_WATCHERS_OF_KEY} streams of this key are open here already. Close some.",
                retry_after=30,
            )
        watcher = Watcher(key_id)
        self._watchers.add(watcher)
        if self._reading is None:
            self._shown = None
            self._latest.clear()
            self._reading = asyncio.create_task(self._read(), name="eventhub-live")
        if self._shown is not None:
            watcher.show(self._shown)
        if self._latest:
            watcher.tell(list(self._latest), 0)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers and self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def stream(self, watcher: Watcher, welcome: Welcome, seconds: float | None) -> AsyncGenerator[bytes, None]:
        """What is sent to a watcher, until it is over; ``welcome`` says whether it may still watch."""
        until = float("inf") if seconds is None else time.monotonic() + seconds
        look_at = time.monotonic() + ALIVE_EVERY
        yield RETRY
        while not watcher.ended:
            now = time.monotonic()
            if now >= until:
                return
            if now >= look_at:
                look_at = now + ALIVE_EVERY
                if not await _is_welcome(welcome):
                    return
                yield ALIVE
            await watcher.wait(min(look_at, until) - now)
            sent = watcher.take()
            if sent and not watcher.ended:
                yield sent

    def stop(self) -> None:
        """Every stream ends at once, and no other begins."""
        self._stopped = True
        for watcher in self._watchers:
            watcher.end()
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        position: str | None = None
        while True:
            started = time.monotonic()
            try:
                position = await self._round(position)
            except EventHubError as error:
                self._show(self._overseer.last())
                log.debug("live_failed", error=f"{error}")
            except Exception:
                log.exception("live_failed")  # whatever one round met, the next one tries again
            took = time.monotonic() - started
            await asyncio.sleep(max(READ_EVERY - took, took * READ_SHARE))

    async def _round(self, position: str | None) -> str:
        news = await self._store.newest_log(MOST_ENTRIES, since=position)
        if news.entries:
            entries = [_entry(entry, kind) for entry, kind in news.entries]
            self._latest.extend(entries)
            for watcher in self._watchers:
                watcher.tell(entries, news.missed)
        self._show(await self._overseer.look())
        return news.position

    def _show(self, overview: Overview | None) -> None:
        """Tell everybody, unless nothing has changed but the time."""
        if overview is None:
            return
        encoded = msgspec.json.encode(overview)
        before = self._shown
        if before is not None and _without_time(before) == _without_time(encoded):
            return
        self._shown = encoded
        for watcher in self._watchers:
            watcher.show(encoded)


async def _is_welcome(welcome: Welcome) -> bool:
    """While the database does not answer nobody knows better, and whoever was let in is told just that."""
    try:
        return await welcome()
    except EventHubError:
        return True


def _entry(entry: LogEntry, kind: str | None) -> LiveEntry:
    return LiveEntry(
        id=entry.id,
        event_id=entry.event_id,
        delivery_id=entry.delivery_id,
        action=entry.action,
        type=kind,
        worker=entry.worker,
        subscriber_id=entry.subscriber,
        attempt=entry.attempt,
        error=entry.error,
        created_at=entry.created_at,
    )


def _event(name: bytes, data: bytes) -> bytes:
    """One event of the stream; JSON of ours has no line breaks in it."""
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def _without_time(encoded: bytes) -> bytes:
    """An overview without the time at its beginning."""
    return encoded.partition(b",")[2]
