"""The pipeline in numbers, for Prometheus: what was copied, what waits, and what holds it back."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from eventhub.errors import EventHubError
from eventhub.lake.standing import lag
from eventhub.store.ledger import DATASETS

if TYPE_CHECKING:
    from eventhub.pipeline.running import Run
    from eventhub.store import Store

__all__ = ["PipelineMetrics"]

LOOK_EVERY: Final = 5.0
LOOK_SHARE: Final = 20
"""Looking takes at most one part in so many of the time."""


class PipelineMetrics:
    """Counters of this process, and gauges about the database that are looked up every few seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.registry = registry = CollectorRegistry()
        self._rows = Counter(
            "eventhub_pipeline_rows_copied", "Rows copied to the lake.", ["dataset"], registry=registry
        )
        self._runs = Counter("eventhub_pipeline_runs", "Runs by how they ended.", ["outcome"], registry=registry)
        self._stages = Gauge(
            "eventhub_pipeline_stage_seconds", "How long a stage of the last run took.", ["stage"], registry=registry
        )
        self._success = Gauge(
            "eventhub_pipeline_last_success_timestamp_seconds", "When a run last ended well.", registry=registry
        )
        self._lag_rows = Gauge(
            "eventhub_pipeline_lag_rows", "Rows that are not in the lake yet.", ["dataset"], registry=registry
        )
        self._lag_seconds = Gauge(
            "eventhub_pipeline_lag_seconds", "How long the oldest of them waits.", ["dataset"], registry=registry
        )
        self._horizon = Gauge(
            "eventhub_pipeline_horizon_age_seconds",
            "Age of the oldest open transaction that writes: nothing after it can be copied.",
            registry=registry,
        )

    def count(self, done: Run | Exception) -> None:
        """A run has ended."""
        if isinstance(done, Exception):
            self._runs.labels("failed").inc()
            return
        self._runs.labels("finished" if done.finished else "stopped").inc()
        for copied in done.copied:
            self._rows.labels(copied.dataset).inc(copied.rows)
        for stage, seconds in done.seconds.items():
            self._stages.labels(stage).set(seconds)
        if done.finished:
            self._success.set_to_current_time()

    async def look(self) -> None:
        """How the database stands now."""
        for dataset in DATASETS:
            found = await lag(self._store, dataset)
            self._lag_rows.labels(dataset).set(found.lag_rows)
            self._lag_seconds.labels(dataset).set(found.lag_seconds)
        age = await self._store.horizon_age()
        self._horizon.set(0.0 if age is None else age.total_seconds())

    async def keep_looking(self) -> None:
        """Until it is cancelled; a database that is away for a while is looked at later."""
        while True:
            began = time.monotonic()
            with suppress(EventHubError):
                await self.look()
            await asyncio.sleep(max(LOOK_EVERY, LOOK_SHARE * (time.monotonic() - began)))

    def serve(self, port: int, host: str) -> None:
        """Answer scrapers in a thread of its own."""
        start_http_server(port, addr=host, registry=self.registry)
