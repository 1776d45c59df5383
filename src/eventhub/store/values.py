"""What goes into the store and what comes out: plain values, the same for both engines."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec

from eventhub.core.events import DeadEvent, QueuedEvent, Status
from eventhub.core.lifecycle import Outcome, State
from eventhub.core.matching import any_of
from eventhub.core.strict_json import by_value
from eventhub.store.buses import RequiredHandlers
from eventhub.store.claims import Held

__all__ = [
    "ApiKey",
    "Current",
    "DeadPage",
    "EventFilter",
    "NewEvent",
    "Orphan",
    "Published",
    "QueueStats",
    "Report",
    "Route",
    "Settled",
    "Sighting",
    "Tended",
    "WorkerSeen",
    "lane_id",
]


class Route(msgspec.Struct, frozen=True):
    """Where work waits: a queue, a set of tags, a priority and an event type, interned as one small number.

    The type of work that nobody chooses by its type is empty.
    """

    queue: str
    tags: tuple[str, ...] = ()
    priority: int = 0
    type: str = ""


class NewEvent(msgspec.Struct, kw_only=True, gc=False):
    """An event to be stored, validated already, with what its delivery needs to know.

    A delivery starts ready, or waiting when ``delay`` or ``deliver_at`` says so, or leased at once when ``worker`` is
    given (publisher and consumer are one process) and nothing stands in its way. With ``completed`` there is no
    delivery: nobody wants the event.

    ``publisher`` is the name of the API key that it came with; idempotency keys are its own.
    ``handlers`` are those of the bus that publishes it, which owns it.

    With ``broadcast`` every subscriber that wants it gets a message, or those that ``targets`` names; one without
    ``work`` has no delivery but those.
    """

    type: str
    payload: str
    route: Route
    metadata: str | None = None
    tags: str | None = None
    title: str | None = None
    description: str | None = None
    ordering_key: str | None = None
    idempotency_key: str | None = None
    park_when_dead: bool = False
    max_attempts: int | None = None
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    worker: str | None = None
    lease: timedelta | None = None
    completed: bool = False
    work: bool = True
    broadcast: bool = False
    targets: tuple[int, ...] | None = None
    publisher: str | None = None
    handlers: RequiredHandlers | None = None

    @property
    def starts_leased(self) -> bool:
        """Whether its publisher holds it from the start: only an event that need not wait for anything can be held."""
        return (
            self.worker is not None
            and self.lease is not None
            and self.ordering_key is None
            and self.delay is None
            and self.deliver_at is None
            and self.work
            and not self.completed
        )

    def same_event(self, other: NewEvent) -> bool:
        """Whether an idempotency key may stand for both, as far as the facts of a stored event tell."""
        return _facts(self) == _facts(other)

    def was_asked(self, digest: bytes) -> bool:
        """Whether a digest that was stored is that of this event; older versions made it of the payload's text."""
        return digest in (self.asked, self._asked(_facts(self, self.payload)))

    @property
    def asked(self) -> bytes:
        """A digest of all that its publisher asked for; a delay counts as it was given."""
        return self._asked(_facts(self))

    def _asked(self, facts: tuple[object, ...]) -> bytes:
        asked: tuple[object, ...] = (*facts, self.route.priority, self.deliver_at, self.delay)
        if self.targets is not None:
            asked += (self.targets,)
        return blake2b(msgspec.json.encode(asked), digest_size=16).digest()


def _facts(event: NewEvent, payload: str | None = None) -> tuple[object, ...]:
    return (
        event.type,
        by_value(event.payload).decode() if payload is None else payload,
        _untraced(event.metadata),
        event.tags,
        event.title,
        event.description,
        event.ordering_key,
    )


def _untraced(metadata: str | None) -> str | None:
    """The metadata without the trace of the request that brought it: a second try has a trace of its own."""
    if metadata is None:
        return None
    found = msgspec.json.decode(metadata)
    kept = {name: value for name, value in found.items() if name not in ("traceparent", "tracestate")}
    return msgspec.json.encode(kept, order="sorted").decode() if kept else None


class Published(msgspec.Struct, frozen=True, gc=False):
    """The answer to a publisher, given after the commit."""

    id: int
    created_at: datetime
    duplicate: bool = False
    leased: bool = False
    told: bool = False
    """Whether the commit itself has told other processes that there is work."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """How a claim ended. ``leased=False`` settles a delivery that nobody holds.

    ``detail`` is kept as the story of an attempt at a message; ``again`` is where one waits that is tried again.
    """

    held: Held
    outcome: Outcome
    leased: bool = True
    detail: str | None = None
    again: Route | None = None


class Current(msgspec.Struct, frozen=True):
    """How a delivery stands now."""

    id: int
    fence: int
    attempts: int
    state: State
    worker: str | None
    due: datetime | None
    lane: int | None
    max_attempts: int | None
    failures: int
    queue: str
    claimed_by: str | None = None


class Settled(msgspec.Struct, frozen=True, gc=False):
    """Whether a report was accepted, and ``at`` what time of the log.

    If not, ``current`` says how the delivery stands (None: it is settled already, or unknown).
    """

    id: int
    accepted: bool
    current: Current | None = None
    at: datetime | None = None


class Tended(msgspec.Struct, frozen=True):
    """What a round of tending did."""

    promoted: int = 0
    abandoned: int = 0
    buried: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        return self.promoted + self.taken_back

    @property
    def taken_back(self) -> int:
        """Claims that were ended for whoever held them, those among them that were the last."""
        return self.abandoned + len(self.buried)


class DeadPage(msgspec.Struct, frozen=True):
    """A page of the dead letter queue, newest event first."""

    events: list[DeadEvent]
    total: int


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to list; every given field must fit, of ``tags`` any one as a whole.

    Tags are those that work is routed by. ``since`` and ``until`` are times of storing, both included. ``before_id``
    goes on below a page and costs the same on every page; ``offset`` skips from there and costs what it skips.
    """

    status: Status | None = None
    type: str | None = None
    tags: frozenset[str] | None = None
    queue: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before_id: int | None = None
    offset: int = 0
    limit: int = 50

    def is_at(self, moment: datetime) -> bool:
        """Whether a time fits."""
        return (self.since is None or self.since <= moment) and (self.until is None or moment <= self.until)

    @property
    def goes_by_route(self) -> bool:
        """Whether its routes must be known: lists by type are read route by route, too."""
        return self.queue is not None or self.tags is not None or self.type is not None

    def accepts(self, route_tags: str) -> bool:
        """Whether events of a route with these tags fit."""
        return any_of(self.tags, route_tags.split(","))


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of which nothing has been heard for long: its event, who has it, and since when the log is silent."""

    event: QueuedEvent
    worker: str
    fence: int
    silent_since: datetime
    lease_expires_at: datetime


class Sighting(msgspec.Struct, frozen=True):
    """A sign of life: a worker did something in a queue."""

    queue: str
    worker: str
    action: str


class WorkerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A worker of a queue: when it was seen, what it did last, and what it holds now.

    One that holds claims but was never seen has no times. ``silent`` is how long ago it was seen last, by the clock
    of the database; ``lease_expires_at`` is when the first of its claims ends.
    """

    queue: str
    name: str
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    last_action: str | None = None
    silent: timedelta | None = None
    open_claims: int = 0
    lease_expires_at: datetime | None = None


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is kept: never the secret, only its digest."""

    id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    rotated_from: str | None = None


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """One queue in numbers."""

    queue: str
    depth: dict[Status, int]
    waiting_for_retry: int = 0
    oldest_pending_seconds: float | None = None
    ages: dict[str, int] = {}
    attempts: dict[int, int] = {}
    handler_results: dict[str, int] = {}
    latency_p50_seconds: float | None = None
    latency_p99_seconds: float | None = None
    failure_rate: float | None = None


def lane_id(consumer: str, key: str) -> int:
    """The number of an ordering key: 63 bits of a hash, so that publishers need not ask for it.

    Two keys that share a number only share their order, which does no harm.
    """
    digest = blake2b(key.encode(), digest_size=8, key=consumer.encode()[:64]).digest()
    return int.from_bytes(digest, "big") >> 1
