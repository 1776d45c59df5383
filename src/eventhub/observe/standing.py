"""How the database stood when it was last looked at, as gauges for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from eventhub._version import __version__
from eventhub.core.events import Status
from eventhub.store.messaging import HubGauges

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.messages import SubscriberRow
    from eventhub.store.values import QueueStats

__all__ = ["Standing"]

COUNTED: Final = 100_000
"""Events that wait to be handed out are counted up to here."""
STATUSES: Final = ("active", "paused", "disabled")
MOST_SUBSCRIBERS: Final = 100
"""So many have a line of their own: those with the most messages waiting."""


class Standing(Collector):
    """The last look; ``look`` takes another."""

    def __init__(self) -> None:
        self._queues: list[QueueStats] = []
        self._subscribers: list[SubscriberRow] = []
        self._fanout: tuple[int, float | None] = (0, None)
        self._hub = HubGauges(pending=[], blocked_keys=0, parked_keys=0, dead_letters=0)

    async def look(self, store: Store) -> None:
        self._queues = await store.stats()
        self._subscribers = (await store.subscribers())[1]
        self._fanout = await store.fanout_waiting(COUNTED)
        self._hub = await store.hub_gauges(most=max(len(self._subscribers), 1))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        info = GaugeMetricFamily("eventhub_build_info", "The version that runs.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from self._of_queues()
        yield from self._of_subscribers()
        pending, lag = self._fanout
        yield _gauge("eventhub_fanout_pending", "Broadcast events not handed out yet.", pending)
        yield _gauge("eventhub_fanout_lag_seconds", "Since when the oldest of them waits.", lag or 0.0)

    def _of_queues(self) -> Iterator[GaugeMetricFamily]:
        depth = GaugeMetricFamily("eventhub_queue_depth", "Events by queue and status.", labels=["queue", "status"])
        oldest = GaugeMetricFamily(
            "eventhub_oldest_pending_seconds", "Age of the oldest event that waits.", labels=["queue"]
        )
        for queue in self._queues:
            for status, count in queue.depth.items():
                depth.add_metric([queue.queue, status.value], count)
            if queue.oldest_pending_seconds is not None:
                oldest.add_metric([queue.queue], queue.oldest_pending_seconds)
        pending = sum(map(_waiting, self._queues)) + sum(count for _, count in self._hub.pending)
        yield depth
        yield oldest
        yield _gauge("eventhub_pending_messages", "Work and messages to subscribers that wait to be done.", pending)
        yield _gauge("eventhub_dlq_size", "Open dead letters.", self._hub.dead_letters)

    def _of_subscribers(self) -> Iterator[GaugeMetricFamily]:
        by_status = Counter(row.status for row in self._subscribers)
        status = GaugeMetricFamily("eventhub_subscribers", "Subscribers by status.", labels=["status"])
        for name in STATUSES:
            status.add_metric([name], by_status[name])
        suspended = sum(row.circuit == "open" for row in self._subscribers)
        yield status
        yield _gauge("eventhub_circuits_open", "Subscribers to whom sending is suspended.", suspended)
        yield _gauge(
            "eventhub_blocked_keys", "Ordering keys held up by a failure, of queues as well.", self._hub.blocked_keys
        )
        yield _gauge("eventhub_parked_keys", "Those of them that wait for an operator.", self._hub.parked_keys)
        waiting = GaugeMetricFamily(
            "eventhub_subscriber_pending_messages",
            f"Messages waiting, for the {MOST_SUBSCRIBERS} subscribers with the most.",
            labels=["subscriber", "name"],
        )
        names = {row.id: row.name for row in self._subscribers}
        for subscriber, count in self._hub.pending[:MOST_SUBSCRIBERS]:
            waiting.add_metric([str(subscriber), names.get(subscriber, "")], count)
        yield waiting


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _waiting(queue: QueueStats) -> int:
    """The work of a queue that nobody has in hand: its deliveries, without those being worked on."""
    return max(sum(queue.attempts.values()) - queue.depth.get(Status.PROCESSING, 0), 0)
