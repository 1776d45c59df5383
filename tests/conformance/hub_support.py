"""Subscribers, broadcasts and messages for tests of the store."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from eventhub.store import Store
from eventhub.store.messages import Marker, MessageClaim, Placement, Plan, SubscriberRow, WantedMessages, routes_of
from eventhub.store.values import NewEvent, Published, Route

MINUTE = timedelta(minutes=1)
_names = count(1)


async def subscriber(store: Store, name: str | None = None, *, document: str = '{"url":"http://a.example"}') -> int:
    now = await store.now()
    number = await store.next_id()
    name = name or f"subscriber-{next(_names)}"
    row = SubscriberRow(id=number, name=name, document=document, sealed=b"x", created_at=now, updated_at=now)
    return (await store.add_subscriber(row)).id


async def broadcast(store: Store, *payloads: str, type: str = "a", **fields: Any) -> Sequence[Published]:  # noqa: A002
    fields = {"work": False, **fields}
    events = [NewEvent(type=type, payload=p, route=Route("work"), broadcast=True, **fields) for p in payloads]
    return await store.publish(events)


async def plan(
    store: Store, *subscribers: int, keyed: bool = False, parks: bool = False, max_attempts: int | None = 4
) -> Plan:
    """Every event to every subscriber, in the order of its ordering key if asked."""

    def place(marker: Marker) -> list[Placement]:
        wanted = subscribers if marker.targets is None else [s for s in subscribers if s in marker.targets]
        key = marker.ordering_key if keyed else None
        return [Placement(marker.event_id, number, key, parks, max_attempts) for number in wanted]

    routes = frozenset(route for number in subscribers for route in routes_of(number))
    return Plan(await store.subscribers_version(), routes, False, place)


async def claim(store: Store, *subscribers: int, most: int = 100, worker: str = "w", **more: Any) -> list[MessageClaim]:
    wanted = [WantedMessages(number, most) for number in subscribers]
    return await store.claim_messages(wanted, worker=worker, lease=MINUTE, **more)
