"""Archiving is killed again and again between its steps: every event is in the database or the lake, whole."""

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eventhub.core.events import LogEntry, QueuedEvent
from eventhub.core.lifecycle import Complete
from eventhub.lake.history import History
from eventhub.lake.place import Lake
from eventhub.pipeline.restoring import restore
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.ledger import DATASETS
from eventhub.store.values import EventFilter, Report
from eventhub.testing.torture.children import Nursery
from tests.crash.conftest import Say
from tests.pipeline.lake_support import copy

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
KILLS = int(os.environ.get("EVENTHUB_KILLS", "5"))
OLD = datetime(2026, 3, 1, 23, 59, 50, tzinfo=UTC)
BEFORE = datetime(2026, 4, 1, tzinfo=UTC)
COUNT = 240
OPEN = 2
LONGEST = 60.0

Story = tuple[QueuedEvent | None, list[LogEntry]]


async def work_off(store: Store) -> None:
    """Events of two days, some of whose log rows are from the day after; and one that stays open."""
    for turn in range(2):
        now = OLD + timedelta(days=turn)
        events = Composer("default").many([{"type": "a", "payload": {"n": n}} for n in range(COUNT // 2)])
        await store.publish(events, now=now)
        for later in range(3):
            moment = now + timedelta(seconds=9 * later)
            claims = await store.claim("default", worker="w", lease=timedelta(hours=1), limit=COUNT // 6, now=moment)
            await store.settle([Report(claim.held, Complete()) for claim in claims], now=moment)
    await store.publish(Composer("default").many([{"type": "open", "payload": 1}]), now=OLD)
    await store.publish(Composer("default").many([{"type": "today", "payload": 1}]))


async def stories(store: Store) -> dict[int, Story]:
    found = await store.events(EventFilter(limit=10_000))
    return {event.id: (event, await store.log(event.id)) for event in found}


async def rows(store: Store) -> int:
    """What there is of events and log that is old."""
    days = [*await store.old_event_days(BEFORE), *await store.old_log_days(BEFORE)]
    return sum(day.rows for day in days)


async def test_killed_between_its_steps(store_url: str, tmp_path: Path, nursery: Nursery, seed: int, say: Say) -> None:
    chance = random.Random(seed)
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(store_url) as store:
        await work_off(store)
        await copy(store, lake)
        told = await stories(store)
        past = History(lake.url, await store.hub_id())
        seen = []
        for turn in range(KILLS):
            wanted = COUNT * (KILLS - 1 - turn) // KILLS + OPEN
            child = nursery.spawn(
                "archiver", f"archiver-{turn}", url=store_url, lake=lake.url, before=BEFORE.isoformat(), batch=5
            )
            while child.alive and await store.count_events(EventFilter()) > wanted:
                pass
            child.kill()
            left = await stories(store)
            seen.append(len(left))
            for number, story in told.items():
                if number in left:
                    assert left[number] == story
                elif chance.random() < 0.05:
                    found = await past.find(number)
                    assert found is not None
                    assert (found.event, found.log) == story
        last = nursery.spawn("archiver", "last", url=store_url, lake=lake.url, before=BEFORE.isoformat(), batch=500)
        await last.ended(LONGEST)
        assert not nursery.errors()
        say(f"{KILLS} kills; {seen} of {len(told)} events were left after each")
        left = await stories(store)
        assert sorted(event.type for event, _ in left.values() if event is not None) == ["open", "today"]
        assert await rows(store) == OPEN
        for day in (OLD.date(), (OLD + timedelta(days=1)).date()):
            await restore(store, store_url, lake, day)
        assert await stories(store) == told
        for dataset in DATASETS:
            assert lake.dataset(dataset).describe()["rows"] == (len(told) if dataset == "events" else 3 * COUNT + OPEN)
