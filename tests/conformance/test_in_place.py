"""On SQLite, an event that is published alone is written on the thread of the loop while commits are quick."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from eventhub.store import open_store
from eventhub.store.sqlite import SqliteStore, thread
from tests.conformance.support import actions, ids, new, publish_one, take


class Places:
    """The threads that commits were made on."""

    def __init__(self, store: SqliteStore) -> None:
        self.seen: list[str] = []
        transact = store._writer._transact

        def noted(connection: apsw.Connection, jobs: Any) -> Any:
            self.seen.append("place" if threading.current_thread() is threading.main_thread() else "thread")
            return transact(connection, jobs)

        store._writer._transact = noted  # type: ignore[method-assign]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is."""
    monkeypatch.setattr(thread, "QUICK_SECONDS", 60.0)


@pytest.fixture
async def store(sqlite_path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(sqlite_path) as opened:
        assert isinstance(opened, SqliteStore)
        await publish_one(opened, now=None)
        yield opened


async def test_single_events_are_written_in_place_once_commits_are_known_to_be_quick(
    sqlite_path: Path, quick: None
) -> None:
    async with open_store(sqlite_path) as store:
        assert isinstance(store, SqliteStore)
        await store.open()
        places = Places(store)
        numbers = [await publish_one(store, now=None) for _ in range(4)]
        assert places.seen == ["thread", "thread", "place", "place", "place"]  # its route, the first, the others
        assert [await actions(store, number) for number in numbers] == [["PUBLISHED"]] * 4
        assert ids(await take(store, 10, now=None)) == numbers


async def test_slow_commits_never_stop_the_loop(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "QUICK_SECONDS", 0.0)
    places = Places(store)
    for _ in range(3):
        await publish_one(store, now=None)
    assert set(places.seen) == {"thread"}


async def test_one_slow_commit_is_forgotten_in_time(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "QUICK_SECONDS", 1.0)
    store._writer._brief_seconds = 4.0
    places = Places(store)
    for _ in range(20):
        await publish_one(store, now=None)
    assert places.seen[0] == "thread"
    assert places.seen[-1] == "place"


async def test_several_events_large_ones_and_several_publishers_go_to_the_thread(
    store: SqliteStore, quick: None
) -> None:
    places = Places(store)
    await store.publish([new(), new()])
    await publish_one(store, payload="x" * 100_000, now=None)
    assert places.seen == ["thread", "thread"]
    places.seen.clear()
    await asyncio.gather(*(publish_one(store, now=None) for _ in range(8)))
    assert places.seen.count("thread") >= 1
    assert len(places.seen) <= 3


async def test_a_file_that_another_process_has_locked_stops_nothing_but_the_publisher(
    store: SqliteStore, sqlite_path: Path, quick: None
) -> None:
    other = apsw.Connection(str(sqlite_path))
    other.execute("BEGIN IMMEDIATE")
    publishing = asyncio.create_task(publish_one(store, now=None))
    await store.ready("work")  # the loop goes on, and so does reading
    assert not publishing.done()
    other.execute("COMMIT")
    other.close()
    number = await publishing
    assert await actions(store, number) == ["PUBLISHED"]
    places = Places(store)
    for _ in range(2):
        await publish_one(store, now=None)
    assert places.seen[-1] == "place", "afterwards it is as before"


async def test_who_publishes_one_after_the_other_lets_others_live(store: SqliteStore, quick: None) -> None:
    turns = 0

    async def live() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    living = asyncio.create_task(live())
    for _ in range(50):
        await publish_one(store, now=None)
    living.cancel()
    assert turns >= 50


async def test_what_fails_in_place_is_undone_and_the_next_is_stored(store: SqliteStore, quick: None) -> None:
    bad = new()
    bad.type = None  # type: ignore[assignment]
    places = Places(store)
    with pytest.raises(apsw.ConstraintError):
        await store.publish([bad])
    number = await publish_one(store, now=None)
    assert places.seen == ["place", "place"]
    assert await actions(store, number) == ["PUBLISHED"]
    assert len(await take(store, 10, now=None)) == 2
