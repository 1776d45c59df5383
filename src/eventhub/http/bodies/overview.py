"""How the hub stands, at a glance: what the first page of the dashboard shows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from eventhub.http.bodies.basics import Answered, Time

__all__ = ["Chart", "Concern", "OpenMessages", "Overview", "PartHealth", "QueueDepth", "Rates", "WorkDepth"]


class Rates(Answered):
    """A second, over the last minute."""

    received: float
    completed: float
    failed: float


class Chart(Answered, rename={"from_": "from"}):
    """Counts a step, over the last hour; a step that was not counted yet is null."""

    step_seconds: int
    from_: Time
    received: list[int | None]
    completed: list[int | None]
    failed: list[int | None]


class QueueDepth(Answered):
    """Open work of one queue."""

    queue: str
    pending: int
    processing: int
    retry: Annotated[int, Meta(description="Waits for its time, after a failure or as it was published; is pending.")]
    oldest_waiting_seconds: float | None


class WorkDepth(Answered):
    """Open work of all queues together."""

    pending: int
    processing: int
    retry: int
    queues: list[QueueDepth]
    more: Annotated[bool, Meta(description="A hundred thousand of a kind were counted, and there may be more.")]


class OpenMessages(Answered):
    """Messages to subscribers by state."""

    ready: int
    waiting: int
    behind: Annotated[int, Meta(description="Behind another of the same ordering key.")]
    leased: int
    more: bool


class PartHealth(Answered):
    """How one part of the hub is."""

    part: Literal["database", "fan-out", "dispatcher", "janitor", "pipeline"]
    state: Literal["ok", "warn", "bad", "off"]
    words: str


class Concern(Answered):
    """Something that needs attention, and where to look."""

    level: Literal["bad", "warn", "info"]
    words: str
    link: Annotated[str, Meta(description="A page of the dashboard, such as #/subscribers/7.")]


class Overview(Answered):
    """How the hub stands. Everything is counted up to a hundred thousand."""

    at: Time
    rates: Rates
    chart: Chart
    depth: WorkDepth
    messages: OpenMessages
    oldest_waiting_seconds: float | None
    in_flight: int
    dead_letters: int
    health: list[PartHealth]
    attention: Annotated[list[Concern], Meta(description="The most urgent first; empty when all is well.")]
