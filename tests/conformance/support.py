"""What the conformance tests share: a clock that is only a number of seconds, and short words for common steps."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.core.strict_json import dump
from eventhub.store import Store
from eventhub.store.claims import Claim, Held
from eventhub.store.values import EventFilter, NewEvent, Report, Route, Settled

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
QUEUE = "work"
MICROSECOND = timedelta(microseconds=1)


def at(seconds: float) -> datetime:
    """So many seconds after the start of the test's time."""
    return START + timedelta(seconds=seconds)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def new(
    type_: str = "order.placed",
    payload: Any = None,
    *,
    queue: str = QUEUE,
    tags: tuple[str, ...] = (),
    priority: int = 0,
    key: str | None = None,
    **rest: Any,
) -> NewEvent:
    """An event to publish; ``key`` is its ordering key."""
    return NewEvent(
        type=type_,
        payload=dump({"n": 1} if payload is None else payload),
        route=Route(queue, tags, priority, type_),
        tags=",".join(tags) or None,
        ordering_key=key,
        **rest,
    )


async def publish(store: Store, *events: NewEvent, now: datetime | None = START) -> list[int]:
    return [published.id for published in await store.publish(events, now=now)]


async def publish_one(store: Store, now: datetime | None = START, **details: Any) -> int:
    return (await publish(store, new(**details), now=now))[0]


async def take(
    store: Store,
    limit: int = 1,
    *,
    now: datetime | None = START,
    queue: str = QUEUE,
    worker: str = "worker-a",
    lease: timedelta = MINUTE,
    **rest: Any,
) -> list[Claim]:
    return await store.claim(queue, worker=worker, lease=lease, limit=limit, now=now, **rest)


async def take_one(store: Store, now: datetime | None = START, **rest: Any) -> Claim:
    (claim,) = await take(store, now=now, **rest)
    return claim


async def report(
    store: Store, held: Held | Claim, outcome: Outcome, *, now: datetime | None = START, leased: bool = True
) -> Settled:
    held = held.held if isinstance(held, Claim) else held
    (settled,) = await store.settle([Report(held, outcome, leased)], now=now)
    return settled


async def complete(store: Store, held: Held | Claim, now: datetime | None = START) -> bool:
    return (await report(store, held, Complete(), now=now)).accepted


async def fail(
    store: Store, held: Held | Claim, error: str = "boom", *, after: float = 0, now: datetime | None = START
) -> bool:
    return (await report(store, held, Retry(error, seconds(after)), now=now)).accepted


async def bury(
    store: Store, held: Held | Claim, error: str | None = "boom", *, now: datetime | None = START, **rest: Any
) -> bool:
    return (await report(store, held, Bury(error, **rest), now=now)).accepted


async def release(store: Store, held: Held | Claim, *, after: float = 0, now: datetime | None = START) -> bool:
    return (await report(store, held, Release(seconds(after)), now=now)).accepted


async def kill(store: Store, *, now: datetime | None = START, **details: Any) -> int:
    """Publish an event, claim it and bury it; its id."""
    number = await publish_one(store, now=now, **details)
    (claim,) = await store.claim_ids([number], worker="worker-a", lease=MINUTE, now=now)
    assert await bury(store, claim, now=now)
    return number


def ids(claims: Iterable[Claim]) -> list[int]:
    return [claim.event.id for claim in claims]


def at_fence(claim: Claim, fence: int) -> Held:
    """The same delivery under another fence number."""
    return Held(claim.held.id, fence, claim.held.lane)


async def actions(store: Store, event_id: int) -> list[str]:
    return [str(entry.action) for entry in await store.log(event_id)]


async def observe(store: Store, numbers: Sequence[int]) -> dict[str, Any]:
    """Everything that can be seen of these events from outside."""
    return {
        "current": await store.current(numbers),
        "events": [await store.event(number) for number in numbers],
        "log": [await store.log(number) for number in numbers],
        "dead": await store.dead(limit=1000),
        "letters": [await store.dead_event(number) for number in numbers],
        "results": await store.handler_results(numbers),
        "list": await store.events(EventFilter(limit=1000)),
        "depth": [(stats.queue, stats.depth, stats.waiting_for_retry) for stats in await store.stats()],
    }
