"""The chart of the last hour: steps that are over are counted once, the past is filled in, nothing is counted twice."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from eventhub.http.dashboard.activity import STEPS, Activity
from eventhub.store import Store, open_store
from eventhub.store.values import NewEvent, Route

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


async def publish(store: Store, number: int, seconds: float) -> None:
    event = NewEvent(type="a", payload="{}", route=Route("work"))
    await store.publish([event] * number, now=after(seconds))


async def filled(activity: Activity) -> list[int | None]:
    if activity._filling is not None:
        await asyncio.wait([activity._filling])
    return activity.chart().received


async def test_an_hour_is_filled_from_the_newest_on(store: Store) -> None:
    for number, seconds in ((1, -3601), (2, -3595), (3, -1800), (4, -15), (5, 1)):
        await publish(store, number, seconds)
    activity = Activity(store)
    await activity.look(after(5))
    chart = activity.chart()
    assert (chart.step_seconds, chart.from_) == (10, after(-3600))
    assert (chart.received[0], chart.received[180], chart.received[-2:]) == (None, None, [4, 0])
    received = await filled(activity)
    assert len(received) == STEPS
    assert {place: count for place, count in enumerate(received) if count != 0} == {0: 2, 180: 3, 358: 4}
    assert activity.rates().received == round(9 / 65, 4)


async def test_what_comes_later_is_added_and_what_is_over_is_kept(store: Store) -> None:
    activity = Activity(store)
    await publish(store, 1, 0)
    await activity.look(after(5))
    await filled(activity)
    await publish(store, 2, 7)
    await activity.look(after(12))
    assert activity.chart().received[-1] == 3
    await publish(store, 4, 100)
    await activity.look(after(112))  # nobody looked for a while
    received = await filled(activity)
    assert (received[-1], received[-11], sum(filter(None, received))) == (4, 3, 7)
    await activity.look(after(3800))
    assert sum(filter(None, await filled(activity))) == 0


async def test_closing_ends_the_filling(store: Store) -> None:
    activity = Activity(store)
    await activity.look(after(5))
    await activity.close()
    assert activity._filling is None
