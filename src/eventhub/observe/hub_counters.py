"""The hub's own numbers as Prometheus has them.

The hub raises plain counters for each message; what they grew by is added here when somebody asks, and every second or
so, because with several processes the one that is asked reads what the others left in their files.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from eventhub.core.lifecycle import Reason
from eventhub.hub.numbers import LATENCY, WAITED, Distribution, Numbers

__all__ = ["HubCounters"]

OUTCOMES: Final = ("completed", "failed", "dead")
RESULTS: Final = ("2xx", "3xx", "4xx", "429", "5xx", "timeout", "network")
PLAIN: Final = (
    ("retried", "eventhub_messages_retried", "Attempts at messages that failed and will be repeated."),
    ("released", "eventhub_messages_released", "Messages given back without an attempt, as at a stop."),
    ("lost", "eventhub_messages_lost", "Outcomes that came after the lease had ended, and changed nothing."),
    ("fanned_out_events", "eventhub_fanout_events", "Broadcast events handed out to subscribers."),
    ("fanned_out_messages", "eventhub_fanout_messages", "Messages that were made of them."),
    ("circuits_opened", "eventhub_circuits_opened", "Times that sending to a failing subscriber was suspended."),
)


class HubCounters:
    """Adds what a hub's numbers grew by to the counters of a registry."""

    def __init__(self, numbers: Numbers, registry: CollectorRegistry) -> None:
        self._numbers = numbers
        self._before: Counts[str] = Counts()
        self._plain = {field: Counter(name, about, registry=registry) for field, name, about in PLAIN}
        self._outcomes = Counter(
            "eventhub_messages_delivered", "Attempts at messages, by how they ended.", ["outcome"], registry=registry
        )
        self._dead = Counter("eventhub_messages_dead", "Messages given up.", ["reason"], registry=registry)
        self._results = Counter(
            "eventhub_webhook_attempts", "Requests to subscribers, by answer.", ["result"], registry=registry
        )
        for counter, labels in ((self._outcomes, OUTCOMES), (self._dead, Reason), (self._results, RESULTS)):
            for label in labels:
                counter.labels(str(label))  # there from the start, so that a rate sees the first one
        self._latency = _Buckets(
            Histogram(
                "eventhub_delivery_latency_seconds",
                "Time that a subscriber took to answer a request, or that was lost on it.",
                buckets=LATENCY,
                registry=registry,
            )
        )
        self._waited = _Buckets(
            Histogram(
                "eventhub_end_to_end_latency_seconds",
                "From publishing an event to its arrival at a subscriber.",
                buckets=WAITED,
                registry=registry,
            )
        )
        self._in_flight = Gauge(
            "eventhub_dispatcher_in_flight",
            "Requests to subscribers that are under way.",
            multiprocess_mode="livesum",
            registry=registry,
        )

    def count(self) -> None:
        """Bring the registry up to date."""
        numbers = self._numbers
        for field, counter in self._plain.items():
            counter.inc(self._grown(field, getattr(numbers, field)))
        ended = (numbers.delivered, numbers.retried, numbers.dead.total())
        for outcome, value in zip(OUTCOMES, ended, strict=True):
            self._outcomes.labels(outcome).inc(self._grown(f"outcome {outcome}", value))
        self._add(self._dead, "reason", numbers.dead)
        self._add(self._results, "result", numbers.attempts)
        self._latency.add(numbers.latency)
        self._waited.add(numbers.waited)
        self._in_flight.set(numbers.in_flight)

    def _add(self, counter: Counter, kind: str, counts: Mapping[str, int]) -> None:
        for label, value in counts.items():
            counter.labels(label).inc(self._grown(f"{kind} {label}", value))

    def _grown(self, name: str, value: int) -> int:
        grown = value - self._before[name]
        self._before[name] = value
        return grown


class _Buckets:
    """Adds whole buckets to a histogram, which by itself takes one value at a time."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._counts: list[int] | None = None
        self._sum = 0.0

    def add(self, found: Distribution) -> None:
        before = self._counts or [0] * len(found.counts)
        for bucket, now, then in zip(self._histogram._buckets, found.counts, before, strict=True):  # noqa: SLF001
            if now > then:
                bucket.inc(now - then)
        self._histogram._sum.inc(found.sum - self._sum)  # noqa: SLF001 - there is no other way to add many at once
        self._counts, self._sum = list(found.counts), found.sum
