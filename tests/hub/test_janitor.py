"""Keeping house, also when nobody asks for work."""

import asyncio
from datetime import timedelta

from eventhub.hub.janitor import Janitor
from eventhub.store import open_store
from eventhub.store.values import Sighting


async def test_workers_that_were_not_seen_for_long_are_forgotten() -> None:
    async with open_store(":memory:") as store:
        now = await store.now()
        for days in (1, 8, 31):
            await store.see_workers([Sighting("work", f"{days} days ago", "POLLED")], now=now - timedelta(days=days))
        for forget, left in (({}, 2), ({"forget_workers": timedelta(days=7)}, 1)):
            janitor = Janitor(store, **forget)
            janitor.start()
            while await store.count_workers("work") > left:  # noqa: ASYNC110 - the janitor tells nobody
                await asyncio.sleep(0.01)
            await janitor.stop()
        assert [worker.name for worker in await store.workers("work")] == ["1 days ago"]
