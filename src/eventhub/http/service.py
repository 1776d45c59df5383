"""Everything that the routes share: the store, the work queue, the keys, the limits, the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from eventhub.config import Settings
from eventhub.errors import EventNotFound
from eventhub.http.asking import address_of
from eventhub.http.dashboard.files import load_files
from eventhub.http.dashboard.live import Live
from eventhub.http.dashboard.overseer import Overseer
from eventhub.http.documentation import Documents
from eventhub.http.gate import Gate
from eventhub.http.intake import Intake
from eventhub.http.limits import Backlog, DiskReserve, TokenBuckets
from eventhub.http.problems import Problem
from eventhub.http.publishing import Publisher
from eventhub.http.refusals import Refusals
from eventhub.http.sessions import Sessions
from eventhub.hub.crew import Crew
from eventhub.hub.destinations import Destinations
from eventhub.hub.sealing import Vault
from eventhub.hub.serving import crew_settings
from eventhub.hub.subscribers import SubscriberBook
from eventhub.keys import NOBODY, OWNER, KeyRing
from eventhub.lake.history import History, Past
from eventhub.lake.reports import Reports
from eventhub.observe.metrics import Metrics
from eventhub.queue.work import WorkQueue
from eventhub.store import Store

__all__ = ["Service"]


REFUSED_AT_ONCE: Final = 100
REFUSED_PER_SECOND: Final = 1.0
"""Keys that are not good, of one address, before it is told to come later."""


class Service:
    """One server process's parts; it opens the store when it starts and lets go of it when it stops."""

    def __init__(self, settings: Settings, store: Store, secret: bytes) -> None:
        self.settings = settings
        self.verbose = settings.log_level == "debug"  # asking the log itself would cost more than most answers
        self.store = store
        self.work = WorkQueue(
            store,
            queue=settings.work_queue,
            max_retries=settings.max_retries,
            retry_after=timedelta(seconds=settings.retry_seconds),
            lease=timedelta(seconds=settings.lease_seconds),
        )
        self.publisher = Publisher(self.work.composer, settings.max_retries, queue=settings.work_queue)
        self.keys = KeyRing(store, secret)
        self.sessions = Sessions(self.keys, secret, store)
        self.refusals = Refusals(store)
        self._refused = TokenBuckets(REFUSED_PER_SECOND, REFUSED_AT_ONCE)
        self.owner, self.nobody = OWNER, NOBODY
        self.buckets = TokenBuckets(settings.rate_per_second, settings.rate_burst)
        self.intake = Intake(settings.max_bodies_mb)
        self._backlog = Backlog(store, settings.max_backlog)
        file = Path(store.url) if store.engine == "sqlite" and store.url != ":memory:" else None
        self._disk = DiskReserve(file, settings.min_free_disk_mb)
        destinations = Destinations(settings.private_networks)
        self.book = SubscriberBook(store, Vault(secret), destinations, queue=settings.work_queue)
        self.crew = Crew(
            store,
            self.book,
            destinations,
            queue=settings.work_queue,
            roles=settings.role_names - {"api"},
            settings=crew_settings(settings),
        )
        self.metrics = Metrics(store, waiting=lambda: self.work.room.waiting, numbers=self.crew.numbers)
        self.overseer = Overseer(store, settings, self._disk)
        self.live = Live(store, self.overseer)
        self.gate = Gate(self)
        self.documents = Documents(b"", b"", b"")
        self.page_files = load_files()
        self.stopping = False
        self._history: History | None = None
        self.reports: Reports | None = None

    async def start(self) -> None:
        await self.store.open()
        hub = await self.store.hub_id()
        self._history, self.reports = History(self.settings.lake, hub), Reports(self.settings.lake, hub)
        await self.crew.start()
        self.metrics.start()

    def stop_taking(self) -> None:
        """No more work is handed out: whoever waits for some is told that there is none, and streams end."""
        self.stopping = True
        self.live.stop()
        self.work.stop()

    async def close(self) -> None:
        self.stop_taking()
        await self.overseer.close()
        await self.crew.stop()
        await self.metrics.stop()
        await self.work.close()
        await self._backlog.close()
        await self.keys.close()
        await self.refusals.close()
        for readers in (self._history, self.reports):
            if readers is not None:
                readers.close()
        await self.store.close()

    def refuse_key(self, client: Any, headers: Mapping[bytes, bytes], *, how: str) -> None:
        """Note a key that is not good; too many from one address get 429. Good ones from there go on unhindered."""
        self.refusals.note(address_of(client, headers), how=how)
        wait = self._refused.take("" if client is None else str(client[0]))
        if wait:
            raise Problem(
                429,
                "too-many-refusals",
                "Too many keys that are not good came from this address. Check the key, and try again later.",
                retry_after=wait,
            )

    async def past(self, event_id: int) -> Past:
        """An event that has left the database, as the lake has it."""
        found = None if self._history is None else await self._history.find(event_id)
        if found is None:
            raise EventNotFound(f"Event not found: {event_id}")
        return found

    async def check_room(self, events: int) -> None:
        """Refuses what would only make a full hub fuller."""
        wait = await self._backlog.admit(events)
        if wait:
            raise Problem(
                503,
                "backlog-limit",
                f"At most {self.settings.max_backlog:,} deliveries may wait, and that many do. Try again later.",
                retry_after=wait,
            )
        wait = self._disk.admit()
        if wait:
            raise Problem(
                503, "disk-reserve", "The hub's disk is nearly full, so it takes no new events.", retry_after=wait
            )
