"""A made-up history in a hub, for demonstrations, tests and measurements: everything in it has happened already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.core.subscribers import Subscriber
from eventhub.pipeline.loading import open_target
from eventhub.pipeline.loading.rows import RouteNumbers, event_rows, log_rows
from eventhub.pipeline.synth.histories import Plan, histories
from eventhub.pipeline.synth.world import TYPES
from eventhub.store.messages import HUB, SubscriberRow
from eventhub.store.opening import open_store

if TYPE_CHECKING:
    from eventhub.core.events import QueuedEvent
    from eventhub.store import Store

__all__ = ["Made", "looks_made_up", "synthesize"]

Tell = Callable[[int], None]
NAME: Final = "synthetic-consumer"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What was made, and how long it took: all in all, and making it up alone."""

    first_id: int | None
    events: int
    entries: int
    messages: int
    dead: int
    seconds: float
    making_seconds: float


def synthesize(
    url: str,
    events: int,
    *,
    until: datetime,
    seed: int = 0,
    days: float = 7.0,
    subscribers: int = 3,
    fail: float = 0.05,
    tell: Tell = lambda _: None,
) -> Made:
    """Fill a hub with so many events that were published, worked on and settled in the days before ``until``.

    The same seed gives the same history. Subscribers are made, too, paused; nothing is sent to anybody. ``tell`` hears
    how many events are stored, part by part.
    """
    began = time.perf_counter()
    ids = tuple(asyncio.run(_subscribers(url, subscribers)))
    plan = Plan(events=events, until=until, days=days, fail=fail, seed=seed, subscribers=ids)
    first_id: int | None = None
    entries = messages = dead = 0
    making = 0.0
    with open_target(url) as target:
        routes = RouteNumbers(target)
        routes.of([(HUB, str(subscriber), "") for subscriber in ids])
        made = iter(histories(plan))
        while True:
            before = time.perf_counter()
            part = next(made, None)
            making += time.perf_counter() - before
            if part is None:
                break
            stored = target.append(event_rows(part.events, routes), log_rows(part.entries), ids=part.ids)
            first_id = stored if first_id is None else first_id
            entries += part.entries.num_rows
            messages += part.ids - part.events.num_rows
            dead += part.dead
            tell(part.events.num_rows)
    return Made(
        first_id=first_id,
        events=events,
        entries=entries,
        messages=messages,
        dead=dead,
        seconds=time.perf_counter() - began,
        making_seconds=making,
    )


async def looks_made_up(store: Store, newest: QueuedEvent) -> bool:
    """Whether a hub has a history of ours and nothing newer: our subscribers are there, the newest event is ours."""
    _, rows = await store.subscribers()
    return newest.type in {kind.name for kind in TYPES} and any(row.name.startswith(f"{NAME}-") for row in rows)


async def _subscribers(url: str, count: int) -> list[int]:
    """The ids of our subscribers; those that are missing are made, paused so that nothing is sent."""
    async with open_store(url) as store:
        _, rows = await store.subscribers()
        known = {row.name: row.id for row in rows}
        now = await store.now()
        for name in [f"{NAME}-{number}" for number in range(1, count + 1)]:
            if name not in known:
                configured = Subscriber(name=name, url=f"https://{name}.invalid/hook", event_type="synthetic.*")
                row = SubscriberRow(
                    id=await store.next_id(),
                    name=name,
                    document=msgspec.json.encode(configured).decode(),
                    sealed=None,
                    status="paused",
                    reason="made up",
                    created_at=now,
                    updated_at=now,
                )
                known[name] = (await store.add_subscriber(row)).id
    return [known[f"{NAME}-{number}"] for number in range(1, count + 1)]
