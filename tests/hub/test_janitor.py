"""Keeping house, also when nobody asks for work."""

import asyncio
from datetime import timedelta

from eventhub.hub.janitor import Janitor, Keeping
from eventhub.hub.notices import Notices
from eventhub.store import open_store
from eventhub.store.composing import Composer
from eventhub.store.values import Sighting


async def test_workers_that_were_not_seen_for_long_are_forgotten() -> None:
    async with open_store(":memory:") as store:
        now = await store.now()
        for days in (1, 8, 31):
            await store.see_workers([Sighting("work", f"{days} days ago", "POLLED")], now=now - timedelta(days=days))
        for keeping, left in ((Keeping(), 2), (Keeping(workers=timedelta(days=7)), 1)):
            janitor = Janitor(store, Notices(store, Composer("work")), keeping)
            janitor.start()
            while await store.count_workers("work") > left:  # noqa: ASYNC110 - the janitor tells nobody
                await asyncio.sleep(0.01)
            await janitor.stop()
        assert [worker.name for worker in await store.workers("work")] == ["1 days ago"]
