"""On SQLite, the write-ahead log is moved into the file beside the writer, and stays within bounds."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from eventhub.store import open_store
from eventhub.store.sqlite import SqliteStore, checkpoints, thread
from eventhub.store.sqlite.checkpoints import Checkpoints
from tests.bus.support import until
from tests.conformance.support import new, publish_one
from tests.conformance.test_in_place import Places

PAGE = 4096 + 24
LONG, LONGEST, FEW = 200, 800, 25
PAGES_OF_BATCH = 100
"""More than fifty events of four kilobytes take with all that is written beside them, which is 58 to 77, once 94."""


@pytest.fixture
async def store(sqlite_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", LONG)
    monkeypatch.setattr(checkpoints, "MOST_PAGES", LONGEST)
    monkeypatch.setattr(checkpoints, "FEW_PAGES", FEW)
    async with open_store(sqlite_path) as opened:
        assert isinstance(opened, SqliteStore)
        await publish_one(opened, now=None)
        yield opened


@pytest.fixture
def movers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that moved the log, or most of it."""
    seen: list[str] = []
    move = Checkpoints._move

    def noted(self: Checkpoints) -> None:
        seen.append(threading.current_thread().name)
        move(self)

    monkeypatch.setattr(Checkpoints, "_move", noted)
    return seen


async def publish_much(store: SqliteStore, batches: int) -> int:
    """Returns how many events it was."""
    for _ in range(batches):
        await store.publish([new(payload="x" * 4000) for _ in range(50)])
    return batches * 50


def length(path: Path) -> int:
    """Of the log, in pages: that of the file, which is used again from its beginning."""
    return Path(f"{path}-wal").stat().st_size // PAGE


def files(path: Path) -> list[Path]:
    """The database and what SQLite keeps beside it."""
    return list(path.parent.glob(f"{path.name}*"))


def stored(path: Path) -> int:
    reader = apsw.Connection(str(path))
    try:
        return int(reader.execute("SELECT count(*) FROM eventhub_events").get)
    finally:
        reader.close()


async def test_the_log_stays_within_bounds_while_somebody_writes_all_the_time(
    store: SqliteStore, sqlite_path: Path, movers: list[str]
) -> None:
    written = await publish_much(store, 100)
    assert length(sqlite_path) <= LONGEST + PAGES_OF_BATCH
    assert set(movers) == {"eventhub-checkpoint"}
    assert len(movers) >= 100 * 50 // LONGEST
    assert stored(sqlite_path) == written + 1


async def test_also_when_it_writes_in_place(
    store: SqliteStore, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "QUICK_SECONDS", 60.0)
    places = Places(store)
    for _ in range(1000):
        await publish_one(store, payload="x" * 16_000, now=None)
    assert places.seen.count("place") > 900
    assert length(sqlite_path) <= LONGEST + thread.MOST_IN_PLACE * 20


async def test_a_writer_that_is_quicker_than_the_disk_is_held_up(
    store: SqliteStore, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    move = Checkpoints._move

    def slowly(self: Checkpoints) -> None:
        begun.set()
        go_on.wait(30)
        move(self)

    monkeypatch.setattr(Checkpoints, "_move", slowly)
    publishing = asyncio.create_task(publish_much(store, 100))
    await asyncio.to_thread(begun.wait, 30)
    await until(lambda: length(sqlite_path) >= LONGEST)
    assert not publishing.done()
    go_on.set()
    await publishing
    assert length(sqlite_path) <= LONGEST + PAGES_OF_BATCH


async def test_a_reader_in_the_way_stops_nobody_and_afterwards_the_log_is_used_anew(
    store: SqliteStore, sqlite_path: Path
) -> None:
    reader = apsw.Connection(str(sqlite_path))
    reader.execute("BEGIN")
    before = reader.execute("SELECT count(*) FROM eventhub_events").get
    written = await publish_much(store, 60)
    grown = length(sqlite_path)
    assert grown > LONGEST + PAGES_OF_BATCH
    assert reader.execute("SELECT count(*) FROM eventhub_events").get == before
    reader.execute("COMMIT")
    reader.close()
    written += await publish_much(store, 60)
    assert length(sqlite_path) <= grown + LONGEST
    assert stored(sqlite_path) == written + 1


async def test_another_process_that_moves_it_is_no_trouble(store: SqliteStore, sqlite_path: Path) -> None:
    written, other = 0, apsw.Connection(str(sqlite_path))
    for _ in range(20):
        moving = asyncio.to_thread(other.wal_checkpoint, mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        _, more = await asyncio.gather(moving, publish_much(store, 3))
        written += more
    other.close()
    assert stored(sqlite_path) == written + 1


async def test_who_closes_meanwhile_leaves_one_whole_file(
    store: SqliteStore, sqlite_path: Path, movers: list[str]
) -> None:
    written = 0
    while not movers:
        written += await publish_much(store, 1)
    await store.close()
    assert [found.name for found in files(sqlite_path)] == [sqlite_path.name]
    assert "eventhub-checkpoint" not in {one.name for one in threading.enumerate()}
    assert stored(sqlite_path) == written + 1


async def test_a_file_that_cannot_be_opened_again_is_moved_by_the_writer(
    store: SqliteStore, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> apsw.Connection:
        raise apsw.CantOpenError("too many open files")

    monkeypatch.setattr(checkpoints, "reopen", refuse)
    await publish_much(store, 60)
    assert length(sqlite_path) <= LONGEST + PAGES_OF_BATCH


async def test_where_no_thread_can_be_started_the_writer_does_it_alone(
    store: SqliteStore, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        written = await publish_much(store, 60)
    assert length(sqlite_path) <= LONG + 2 * PAGES_OF_BATCH
    await store.close()
    assert stored(sqlite_path) == written + 1


async def test_it_stays_with_its_file_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, movers: list[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for directory in (here, there):
        directory.mkdir()
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", LONG)
    monkeypatch.chdir(here)
    async with open_store("app.db") as store:
        assert isinstance(store, SqliteStore)
        await publish_one(store, now=None)
        monkeypatch.chdir(there)
        written = await publish_much(store, 20)
    assert movers
    assert files(there / "app.db") == []
    assert stored(here / "app.db") == written + 1
