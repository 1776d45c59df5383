"""Once an SQLite file is not where it was opened, nothing is acknowledged; once it is back, work goes on."""

# ruff: noqa: ASYNC240 - small local files; nothing else runs meanwhile

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from eventhub.errors import StoreError, StoreReadOnly, StoreUnavailable
from eventhub.store import Store, open_store
from tests.conformance.support import complete, ids, publish_one, take, take_one

COMPANIONS = ("", "-wal", "-shm")


def companion(path: Path, suffix: str) -> Path:
    return Path(f"{path}{suffix}")


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for suffix in COMPANIONS:
        companion(path, suffix).unlink()


def delete_log(path: Path) -> None:
    companion(path, "-wal").unlink()


def delete_index(path: Path) -> None:
    companion(path, "-shm").unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def move_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copyfile(path, other)
    other.replace(path)


def begin_anew(path: Path) -> None:
    """As another program does that opens the same name once the file is gone."""
    delete_all(path)
    apsw.Connection(str(path)).execute("PRAGMA journal_mode = wal; CREATE TABLE other (id)")


HARMS = [delete, delete_all, delete_log, delete_index, move, move_directory, replace, begin_anew]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """In a directory that may be moved itself."""
    directory = tmp_path / "data"
    directory.mkdir()
    return directory / "hub.db"


async def refused(store: Store) -> None:
    """Whatever would tell of a success says what is wrong instead."""
    with pytest.raises(StoreUnavailable, match=r"not the file any more that was opened: .*Nothing is acknowledged"):
        await publish_one(store)


@pytest.mark.parametrize("harm", HARMS)
async def test_nothing_is_acknowledged_after_it(path: Path, harm: Callable[[Path], None]) -> None:
    async with open_store(path) as store:
        number = await publish_one(store)
        claim = await take_one(store)
        harm(path)
        for _ in range(3):
            await refused(store)
        with pytest.raises(StoreUnavailable):
            await complete(store, claim)
        with pytest.raises(StoreUnavailable):
            await take(store)
        with pytest.raises(StoreUnavailable):
            await store.log(number)
        assert "acknowledged" not in await asyncio.gather(*(outcome(store) for _ in range(20)))


async def outcome(store: Store) -> str:
    """How a publish ended that was written along with others."""
    try:
        await publish_one(store, now=None)
    except StoreError as error:
        return str(error)
    return "acknowledged"


async def test_work_goes_on_once_the_file_is_back(path: Path) -> None:
    async with open_store(path) as store:
        first = await publish_one(store)
        away = path.with_name("elsewhere.db")
        path.rename(away)
        await refused(store)
        await refused(store)
        away.rename(path)
        last = await publish_one(store)
        found = ids(await take(store, 10))
        assert (found[0], found[-1]) == (first, last)
        assert len(found) <= 3, "only what was being written as the file went is in it without having been acknowledged"


async def test_what_was_refused_beforehand_is_not_written(path: Path) -> None:
    async with open_store(path) as store:
        path.rename(path.with_name("elsewhere.db"))
        for _ in range(10):
            await refused(store)
        path.with_name("elsewhere.db").rename(path)
        assert len(await take(store, 10)) <= 1


async def test_the_file_that_took_its_place_is_left_alone(path: Path) -> None:
    store = await open_store(path).open()
    await publish_one(store)
    delete_all(path)
    other = await open_store(path).open()
    number = await publish_one(other)
    await refused(store)
    await store.close()
    assert companion(path, "-wal").exists(), "the log of the other one was not taken away"
    assert ids(await take(other)) == [number]
    await other.close()


async def test_a_link_that_leads_elsewhere_now_is_a_replaced_file(path: Path) -> None:
    link = path.with_name("link.db")
    async with open_store(path) as first, open_store(path.with_name("second.db")):
        await publish_one(first)
        link.symlink_to(path)
        async with open_store(link) as store:
            await publish_one(store)
            link.unlink()
            link.symlink_to(path.with_name("second.db"))
            await refused(store)
        await publish_one(first)


async def test_a_file_that_is_made_read_only_acknowledges_nothing_more(path: Path) -> None:
    async with open_store(path) as store:
        await publish_one(store)
        path.chmod(0o400)
        for _ in range(2):
            with pytest.raises(StoreReadOnly, match="was made read-only while it was open"):
                await publish_one(store)
        path.chmod(0o600)
        await publish_one(store)


async def test_who_waits_for_work_makes_no_new_file(path: Path) -> None:
    async with open_store(path) as store:
        await publish_one(store)
        delete_all(path)
        with pytest.raises(StoreUnavailable):
            await store.wait("work", since=store.wakeups.mark("work"), timeout=10)
        assert not path.exists()


async def test_the_process_may_go_elsewhere(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    async with open_store(path.name) as store:
        await publish_one(store)
        monkeypatch.chdir("/")
        await publish_one(store)
