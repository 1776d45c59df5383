"""The hub in numbers, for Prometheus: what this process did, and how the database stands.

Counters are the process's own; with several server processes they are added up through files in the directory that
``PROMETHEUS_MULTIPROC_DIR`` names. Gauges about the database are read when they are asked for, at most every few
seconds, and more rarely when reading them takes long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from eventhub.core.events import Action
from eventhub.errors import StoreError
from eventhub.hub.numbers import Numbers
from eventhub.observe.hub_counters import HubCounters
from eventhub.observe.standing import Standing

if TYPE_CHECKING:
    from eventhub.queue.work import Recorded
    from eventhub.store import Store
    from eventhub.store.claims import Claim

__all__ = ["Metrics"]

COUNT_EVERY: Final = 1.0
LOOK_EVERY: Final = 5.0
LOOK_SHARE: Final = 20
QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
SLOW: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)


class Metrics:
    """The counters of one process, in a registry of their own."""

    def __init__(self, store: Store, *, waiting: Callable[[], int], numbers: Numbers | None = None) -> None:
        self._store = store
        self._registry = CollectorRegistry()
        registry = self._registry
        self._received = Counter(
            "eventhub_events_received", "Events published over HTTP.", ["duplicate"], registry=registry
        )
        self._claimed = Counter("eventhub_jobs_claimed", "Jobs handed to HTTP workers.", registry=registry)
        self._reports = Counter(
            "eventhub_jobs_reported", "Reports of HTTP workers that were recorded.", ["outcome"], registry=registry
        )
        self._pickup = Histogram(
            "eventhub_pickup_latency_seconds",
            "From publishing a job to its first claim.",
            buckets=SLOW,
            registry=registry,
        )
        self._requests = Counter(
            "eventhub_http_requests", "Requests answered.", ["operation", "status"], registry=registry
        )
        self._seconds = Histogram(
            "eventhub_http_request_seconds",
            "Time to answer a request.",
            ["operation"],
            buckets=QUICK,
            registry=registry,
        )
        self._abandoned = Counter(
            "eventhub_abandoned",
            "Deliveries that this server took back from whoever let their lease end, or has died.",
            registry=registry,
        )
        self._taken_back = 0
        self._waiting = waiting
        self._waiters = Gauge(
            "eventhub_waiting_workers",
            "Workers that wait for work now.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._count_at = 0.0
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._new = self._received.labels("false")
        self._again = self._received.labels("true")
        self._hub = HubCounters(numbers or Numbers(), registry)
        self._standing = Standing()
        registry.register(self._standing)
        self._look_at = 0.0
        self._looking = asyncio.Lock()
        self._counting: asyncio.Task[None] | None = None

    def received(self, events: int = 1, *, duplicate: bool = False) -> None:
        (self._again if duplicate else self._new).inc(events)

    def claimed(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        self._claimed.inc(len(claims))
        for claim in claims:
            if claim.event.attempts == 1:
                self._pickup.observe((claim.event.updated_at - claim.event.created_at).total_seconds())

    def reported(self, recorded: Recorded) -> None:
        if recorded.repeated:
            return
        outcome = "completed" if recorded.action == Action.COMPLETED else "dead" if recorded.final else "failed"
        self._reports.labels(outcome).inc()

    def answered(self, operation: str, status: int, seconds: float) -> None:
        found = self._children.get((operation, status))
        if found is None:
            found = self._requests.labels(operation, str(status)), self._seconds.labels(operation)
            self._children[operation, status] = found
        found[0].inc()
        found[1].observe(seconds)
        now = time.monotonic()
        if now >= self._count_at:
            self._count_at = now + COUNT_EVERY
            self._count()

    async def text(self) -> tuple[bytes, str]:
        """Everything in the text format, and its content type."""
        with suppress(StoreError):  # the database is away: its last standing, and what this process did
            await self._look()
        self._count()
        if not _shared():
            return generate_latest(self._registry), CONTENT_TYPE_LATEST
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(self._standing)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def start(self) -> None:
        """With several processes, let the others see what this one does, also while nobody asks it anything."""
        if _shared():
            self._counting = asyncio.create_task(self._keep_counting(), name="eventhub-metrics")

    async def stop(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])
            self._counting = None
            self._count()

    async def _keep_counting(self) -> None:
        while True:
            await asyncio.sleep(COUNT_EVERY)
            self._count()

    def _count(self) -> None:
        self._waiters.set(self._waiting())
        self._abandoned.inc(self._store.abandoned - self._taken_back)
        self._taken_back = self._store.abandoned
        self._hub.count()

    async def _look(self) -> None:
        async with self._looking:
            started = time.monotonic()
            if started < self._look_at:
                return
            await self._standing.look(self._store)
            took = time.monotonic() - started
            self._look_at = time.monotonic() + max(LOOK_EVERY, took * LOOK_SHARE)


def _shared() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ
