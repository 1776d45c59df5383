"""Handing out while some publishers have taken their ids and not committed yet: a key keeps its order all the same."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from eventhub.core.lifecycle import Complete
from eventhub.store import Store, open_store
from eventhub.store.postgres import PostgresStore
from eventhub.store.values import NewEvent, Report, Route
from tests.conformance.hub_support import broadcast, claim, plan, subscriber


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


def event(key: str) -> NewEvent:
    return NewEvent(type="a", payload="1", route=Route("work"), ordering_key=key, work=False, broadcast=True)


@asynccontextmanager
async def transaction(store: Store) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(store.url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


async def delivered(store: Store, number: int) -> list[int]:
    """The events in the order in which their messages go out."""
    order: list[int] = []
    while claims := await claim(store, number):
        order += [claimed.event_id for claimed in claims]
        await store.settle([Report(claimed.held, Complete(), detail="{}") for claimed in claims])
    return order


async def test_what_was_committed_late_is_handed_out_before_what_followed_it(store: Store) -> None:
    """Others with higher ids were handed out meanwhile: whoever goes on above them must not pass it over."""
    number = await subscriber(store)
    way = await plan(store, number, keyed=True)
    async with transaction(store) as late:
        (low,) = await store.publish([event("k")], connection=late)
        (other,) = await broadcast(store, "1", ordering_key="other")
        assert low.id < other.id
        assert (await store.fan_out(way)).messages == 1
    (high,) = await broadcast(store, "1", ordering_key="k")
    while (await store.fan_out(way)).messages:
        pass
    assert [one for one in await delivered(store, number) if one != other.id] == [low.id, high.id]


async def test_late_commits_in_the_middle_of_many_rounds(store: Store) -> None:
    number = await subscriber(store)
    way = await plan(store, number, keyed=True)
    expected: dict[str, list[int]] = {}
    for turn in range(30):
        key = f"k{turn % 3}"
        async with transaction(store) as late:
            (low,) = await store.publish([event(key)], connection=late)
            for n in range(turn % 4):
                await broadcast(store, "1", ordering_key=f"other-{n}")
                await store.fan_out(way, limit=2)
        (high,) = await broadcast(store, "1", ordering_key=key)
        expected.setdefault(key, []).extend((low.id, high.id))
        await store.fan_out(way, limit=2)
    while (await store.fan_out(way)).events:
        pass
    assert (await store.fanout_waiting(1))[0] == 0
    order: dict[str, list[int]] = {}
    while claims := await claim(store, number):
        for claimed in claims:
            order.setdefault(claimed.ordering_key or "", []).append(claimed.event_id)
        await store.settle([Report(claimed.held, Complete(), detail="{}") for claimed in claims])
    assert {key: order[key] for key in expected} == expected


async def test_the_look_begins_above_what_is_gone_for_good(store: Store) -> None:
    assert isinstance(store, PostgresStore)
    way = await plan(store, await subscriber(store), keyed=True)
    floors = []
    for _ in range(4):
        (last,) = await broadcast(store, "1")
        await store.fan_out(way)
        floors.append(store._memory.marker_floor.start)
    assert floors == sorted(floors)
    assert 0 < floors[-1] <= last.id
    async with transaction(store) as late:
        await store.publish([event("k")], connection=late)
        for _ in range(4):
            await broadcast(store, "1")
            await store.fan_out(way)
        held = store._memory.marker_floor.start
        assert held <= last.id + 1, "it stays below an id that may still come"
    for _ in range(4):
        (last,) = await broadcast(store, "1")
        await store.fan_out(way)
    assert held < store._memory.marker_floor.start <= last.id


async def test_very_many_keys_at_once_do_not_use_up_the_servers_locks(store: Store) -> None:
    events = [
        NewEvent(type="a", payload="1", route=Route("work"), work=False, broadcast=True, ordering_key=f"k{number}")
        for number in range(20_000)
    ]
    assert len(await store.publish(events)) == 20_000
    assert len(await store.publish(events[:200])) == 200
