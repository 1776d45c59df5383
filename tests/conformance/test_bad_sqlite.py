"""SQLite files that are locked, full, damaged, read-only or no databases: each is told in words, with the remedy."""

# ruff: noqa: ASYNC240 - small local files; nothing else runs meanwhile

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from eventhub.errors import StoreBusy, StoreError, StoreFull, StoreUnavailable
from eventhub.store import open_store
from eventhub.store.sqlite import connection, engine
from eventhub.store.sqlite.thread import ConnectionThread
from tests.conformance.support import ids, new, publish, publish_one, take, take_one

UNPRIVILEGED = 65534


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)


async def test_a_file_that_another_process_keeps_locked_is_busy_and_then_works(
    sqlite_path: Path, impatient: None
) -> None:
    async with open_store(sqlite_path) as store:
        other = apsw.Connection(str(sqlite_path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=r"is locked: another process.*End that transaction"):
            await publish_one(store)
        with pytest.raises(StoreBusy):
            await store.publish([new()])
        assert await store.ready("work") == [], "reading goes on"
        other.execute("ROLLBACK")
        other.close()
        number = await publish_one(store)
        assert ids(await take(store, 10)) == [number], "what was refused has left nothing"


async def test_a_fresh_file_that_is_locked_is_busy(sqlite_path: Path, impatient: None) -> None:
    other = apsw.Connection(str(sqlite_path))
    other.execute("BEGIN EXCLUSIVE")
    store = open_store(sqlite_path)
    with pytest.raises(StoreBusy):
        await store.open()
    other.execute("ROLLBACK")
    other.close()
    await publish_one(store)
    await store.close()


async def test_a_short_lock_is_waited_for(sqlite_path: Path) -> None:
    async with open_store(sqlite_path) as store:
        other = apsw.Connection(str(sqlite_path))
        other.execute("BEGIN IMMEDIATE")
        publishing = asyncio.create_task(store.publish([new()]))
        await store.ready("work")
        other.execute("COMMIT")
        other.close()
        assert len(await publishing) == 1


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(sqlite_path: Path) -> None:
    async with open_store(sqlite_path) as store:
        kept = await publish_one(store)
        writer: ConnectionThread = store._writer  # type: ignore[attr-defined]
        await writer.run(lambda c: c.pragma("max_page_count", 1))  # which means: no more than it has now
        with pytest.raises(StoreFull, match="the disk is full"):
            await publish(store, *(new(payload="x" * 10_000) for _ in range(50)))
        await writer.run(lambda c: c.pragma("max_page_count", 1_000_000))
        more = await publish_one(store)
        assert ids(await take(store, 100)) == [kept, more]


async def test_a_file_that_is_no_database_is_left_alone(sqlite_path: Path) -> None:
    text = b"These are my notes, not a database. " * 50
    sqlite_path.write_bytes(text)
    with pytest.raises(StoreError, match=r"is not an SQLite database\. Give another path"):
        await open_store(sqlite_path).open()
    assert sqlite_path.read_bytes() == text


async def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"the directory .*/missing does not exist\. Create it first"):
        await open_store(tmp_path / "missing" / "hub.db").open()


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="Cannot open"):
        await open_store(tmp_path).open()


async def test_a_damaged_file_is_told(sqlite_path: Path) -> None:
    async with open_store(sqlite_path) as store:
        await publish(store, *(new(payload="x" * 2000) for _ in range(100)))
    content = bytearray(sqlite_path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 100] = b"\xff" * 100
    sqlite_path.write_bytes(content)
    store = open_store(sqlite_path)
    with pytest.raises(StoreError, match=r"is damaged .*Restore it from a backup"):
        await take_one(store)
    await store.close()


async def test_a_store_can_be_opened_once_its_trouble_is_over(sqlite_path: Path) -> None:
    sqlite_path.write_bytes(b"no database at all, " * 50)
    store = open_store(sqlite_path)
    with pytest.raises(StoreError):
        await publish_one(store)
    sqlite_path.unlink()
    await publish_one(store)
    await store.close()


async def test_a_store_that_opens_only_half_leaves_nothing_behind(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_reader(path: str, *, synchronous: str = "FULL", read_only: bool = False) -> apsw.Connection:
        if read_only:
            raise StoreUnavailable("no file handle is left")
        return connection.connect(path, synchronous=synchronous)

    before = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr(engine, "connect", no_reader)
        store = open_store(sqlite_path)
        with pytest.raises(StoreUnavailable, match="no file handle"):
            await store.open()
    for left in set(threading.enumerate()) - before:
        if left.name.startswith("eventhub"):
            await asyncio.to_thread(left.join, 10)  # it was told to end
            assert not left.is_alive()
    await publish_one(store)
    await store.close()


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that an unprivileged user can reach; pytest's own are closed to others."""
    directory = Path(tempfile.mkdtemp(prefix="eventhub-readonly-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


async def as_reader(path: Path, step: str) -> str:
    """What a process that may read but not write the file is told: root's rights are given up first."""
    program = f"""
import asyncio, os
from eventhub.store import open_store
from tests.conformance.support import publish_one
async def load():
    async with open_store(":memory:") as store:
        await publish_one(store)
asyncio.run(load())  # everything is imported before the rights are gone
if os.geteuid() == 0:
    os.setgroups([]), os.setgid({UNPRIVILEGED}), os.setuid({UNPRIVILEGED})
async def main():
    store = open_store({str(path)!r})
    try:
        {step}
    except Exception as error:
        print(type(error).__name__, error)
    await store.close()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await process.communicate())[0].decode().strip()


async def test_a_read_only_file_cannot_be_written(reachable: Path) -> None:
    path = reachable / "hub.db"
    async with open_store(path) as store:
        await publish_one(store)
        for file in reachable.iterdir():
            file.chmod(0o444)
        told = await as_reader(path, "await publish_one(store)")
    assert told.startswith("StoreReadOnly")
    assert "cannot be written" in told
    assert "Check the permissions" in told


async def test_a_read_only_directory_gives_no_new_store(reachable: Path) -> None:
    reachable.chmod(0o555)
    told = await as_reader(reachable / "hub.db", "await store.open()")
    reachable.chmod(0o755)
    assert told.startswith("StoreUnavailable")
    assert "Check that the directory exists and can be written" in told


async def test_a_file_in_a_read_only_directory_is_told_to_be_read_only(reachable: Path) -> None:
    path = reachable / "hub.db"
    async with open_store(path) as store:
        await publish_one(store)
    path.chmod(0o444)
    reachable.chmod(0o555)
    told = await as_reader(path, "await publish_one(store)")
    reachable.chmod(0o755)
    assert told.startswith(("StoreReadOnly", "StoreUnavailable"))
    assert os.fspath(path) in told


async def test_a_disk_without_room_for_the_index_of_the_log_is_full_until_there_is_some(reachable: Path) -> None:
    """No file may be longer than 16 KiB: the -shm of a database that is there cannot be made."""
    path = reachable / "hub.db"
    async with open_store(path) as store:
        await publish_one(store)
    program = f"""
import asyncio, resource
from eventhub.errors import StoreFull
from eventhub.store import open_store
from tests.conformance.support import ids, publish_one, take
async def main():
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = open_store({str(path)!r})
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, most))
    for _ in range(2):
        try:
            await publish_one(store)
        except StoreFull as error:
            print("full:", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await publish_one(store)
    print(len(ids(await take(store, 10))), "events")
    await store.close()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    first, second, last = (await process.communicate())[0].decode().splitlines()
    assert first == second == f"full: {path}: the disk is full. Free some room; nothing that was acknowledged is lost."
    assert last == "2 events"
