"""What the tests of the work queue share."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from eventhub.core.events import Action, LogEntry
from eventhub.queue.work import WorkQueue
from eventhub.store import Store
from eventhub.store.claims import Claim

ASKING = ("settle", "claim", "current", "event", "log", "extend", "start", "ready_routes", "see_workers", "reset")


class Spy:
    """Counts what the real store is asked for."""

    def __init__(self, store: Store) -> None:
        self.calls: Counter[str] = Counter()
        for name in ASKING:
            setattr(store, name, self._counted(name, getattr(store, name)))

    def _counted(self, name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return await ask(*args, **named)

        return counted


async def publish(queue: WorkQueue, tags: str | Sequence[str] = "email", count: int = 1, **details: Any) -> list[int]:
    """Jobs with these tags; their ids."""
    events = [
        queue.composer.one({"type": "job", "payload": {"n": number}, "tags": tags, **details}, None, {})
        for number in range(count)
    ]
    return [published.id for published in await queue.publish(events)]


async def take_one(queue: WorkQueue, worker: str = "host-a:1", tags: str = "email", **rest: Any) -> Claim:
    (claim,) = await queue.take(worker, tags, **rest)
    return claim


async def picked(queue: WorkQueue, worker: str = "host-a:1", **details: Any) -> int:
    """A job that the worker has just taken; its id."""
    (number,) = await publish(queue, **details)
    claim = await take_one(queue, worker)
    assert claim.event.id == number
    return number


async def log_of(queue: WorkQueue, event_id: int, *actions: Action) -> list[LogEntry]:
    """The log of an event; only these actions of it, if any are named."""
    return [entry for entry in await queue.store.log(event_id) if not actions or entry.action in actions]


async def actions(queue: WorkQueue, event_id: int) -> list[str]:
    return [str(entry.action) for entry in await queue.store.log(event_id)]


async def everything(queue: WorkQueue, event_id: int) -> tuple[Any, ...]:
    """All that can be seen of an event: a refused report must not change any of it."""
    store = queue.store
    return (
        await store.event(event_id),
        await store.log(event_id),
        await store.current([event_id]),
        await store.dead_event(event_id),
    )


def waiting(
    queue: WorkQueue, count: int, tags: str = "email", *, wait: float = 30.0
) -> list[asyncio.Task[list[Claim]]]:
    """So many workers that wait for work, in this order."""
    return [asyncio.create_task(queue.take(f"host-{tags}:{n}", tags, wait=60)) for n in range(count)]
