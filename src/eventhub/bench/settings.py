"""What to measure, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from eventhub.errors import SettingsError

__all__ = [
    "BATCH",
    "CLAIM",
    "HTTP_WORKLOADS",
    "PIPELINE_WORKLOADS",
    "PUBLISHERS",
    "TYPE",
    "WEBHOOK_WORKLOADS",
    "WORKLOADS",
    "BenchSettings",
    "Engine",
    "chosen",
]

Engine = Literal["sqlite", "postgres"]

WORKLOADS: Final = (
    "publish-1",
    "publish-16",
    "publish-batch",
    "drain",
    "drain-backlog",
    "drain-held",
    "latency",
    "latency-other-process",
    "dlq-page",
    "recovery",
)
HTTP_WORKLOADS: Final = (
    "http-publish",
    "http-publish-batch",
    "http-work",
    "http-work-batch",
    "http-long-poll",
    "claim-by-tag",
)
WEBHOOK_WORKLOADS: Final = (
    "webhook-rate",
    "webhook-rate-ordered",
    "webhook-client",
    "webhook-idle",
    "webhook-hung",
    "webhook-hot-key",
    "webhook-publish",
)
PIPELINE_WORKLOADS: Final = (
    "pipeline-copy-1",
    "pipeline-copy-2",
    "pipeline-read-1",
    "pipeline-read-2",
    "pipeline-first",
    "pipeline-again",
    "pipeline-rollup",
    "pipeline-publish",
    "pipeline-growth-small",
    "pipeline-growth-whole",
    "pipeline-growth-large",
)
GROWTH: Final = "pipeline-growth"
"""Takes long, and is measured only when it is asked for."""
BATCH: Final = 1000
"""Events in one call of publish_many."""
CLAIM: Final = 500
"""Events in one claim, the default of EventManager."""
PUBLISHERS: Final = 16
SMALLEST_BACKLOG: Final = 10 * CLAIM
"""A manager that is stopped in time has completed a little more than it was meant to."""
TYPE: Final = "bench.event"
OTHERS: Final = 100_000
"""Jobs with other tags before those that are claimed by tag, or messages of a hot key, unless there is a backlog."""

_COUNTS: Final = (
    "events",
    "rounds",
    "latencies",
    "dead",
    "stuck",
    "connections",
    "workers",
    "polled",
    "subscribers",
    "paced",
)


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run. ``backlog`` events wait behind those that are drained; 0 leaves that workload out.

    With ``http`` the server is measured instead, from ``connections`` at once, with so many ``workers`` that wait for
    ``polled`` events at a ``rate`` a second; then the backlog are jobs with other tags that are in the way. With
    ``webhooks`` it is the hub, with ``paced`` events one at a time, a consumer that hangs for so long, and so many
    ``subscribers`` of one type; then the backlog are messages of one ordering key. With ``pipeline`` it is the pipeline
    on Spark, with a history of so many events.
    """

    events: int = 50_000
    backlog: int = 0
    held_snapshot: bool = False
    seconds: float = 60.0
    """The longest drain under a held snapshot; the rate is judged by what was drained until then."""
    rounds: int = 3
    latencies: int = 300
    dead: int = 10_000
    stuck: int = 100
    only: tuple[str, ...] = ()
    http: bool = False
    connections: int = 32
    workers: int = 1000
    polled: int = 500
    rate: float = 50.0
    webhooks: bool = False
    subscribers: int = 1000
    paced: int = 200
    hang_seconds: float = 10.0
    pipeline: bool = False

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; give 1 or more.")
        if 0 != self.backlog < SMALLEST_BACKLOG:
            raise SettingsError(f"backlog is {self.backlog}; give 0 for none, or {SMALLEST_BACKLOG:,} and more.")
        for name in ("seconds", "rate", "hang_seconds"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; give more than 0.")
        chosen(self.only, self.names)
        if self.http + self.webhooks + self.pipeline > 1:
            raise SettingsError("Give --http, --webhooks or --pipeline, one at a time.")
        if (self.http or self.webhooks or self.pipeline) and self.held_snapshot:
            raise SettingsError("A held snapshot is only measured without HTTP and Spark; leave out one of the two.")
        if "drain-backlog" in self.only and not self.backlog:
            raise SettingsError("drain-backlog needs a backlog; give one, such as --backlog 1000000.")
        if "drain-held" in self.only and not self.held_snapshot:
            raise SettingsError("drain-held needs --held-snapshot.")

    @property
    def names(self) -> tuple[str, ...]:
        """The workloads there are."""
        if self.pipeline:
            return PIPELINE_WORKLOADS
        return HTTP_WORKLOADS if self.http else WEBHOOK_WORKLOADS if self.webhooks else WORKLOADS

    @property
    def others(self) -> int:
        """Jobs with other tags before those that are claimed by tag; with ``webhooks``, messages of a hot key."""
        return self.backlog or OTHERS


def chosen(only: Sequence[str], names: Sequence[str] = WORKLOADS) -> tuple[str, ...]:
    """The workloads that names or their beginnings stand for, all when there are none: ``publish`` means three."""
    found = {name: [full for full in names if full == name or full.startswith(f"{name}-")] for name in only}
    unknown = [name for name, fulls in found.items() if not fulls]
    if unknown:
        raise SettingsError(f"There is no workload {', '.join(unknown)}; there are {', '.join(names)}.")
    usual = {name for name in names if not name.startswith(GROWTH)}
    wanted = {full for fulls in found.values() for full in fulls} if only else usual
    if wanted & {"drain-backlog", "drain-held"}:
        wanted.add("drain")  # what they are compared with
    return tuple(name for name in names if name in wanted)
