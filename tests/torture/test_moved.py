"""An SQLite file is replaced under a publisher: the checker finds nothing lost, and finds what a bug would lose."""

import contextlib
from pathlib import Path

import apsw
import pytest

from eventhub.store import open_store
from eventhub.testing.torture.checker import check
from eventhub.testing.torture.children import Child, Nursery, until
from eventhub.testing.torture.evidence import gather
from eventhub.testing.torture.history import Record

SOON = 60.0
MORE = 20
"""Answers that are waited for before and after."""
BUG = "tests.torture.planted:trust_the_open_file"


def publishing(nursery: Nursery, *kinds: str) -> list[Record]:
    return [record for record in nursery.records("publisher-*") if record.op == "publish" and record.kind in kinds]


async def answers(nursery: Nursery, *kinds: str) -> None:
    """Wait for some more of these."""
    before = len(publishing(nursery, *kinds))
    await until(lambda: len(publishing(nursery, *kinds)) > before + MORE, SOON, f"answers: {kinds}")


def stands_still(child: Child) -> bool:
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def stop_between_calls(child: Child, nursery: Nursery) -> None:
    """Stop it where it waits for no answer: of a call under way nobody could say in which file it is."""
    while True:
        child.stop()
        await until(lambda: stands_still(child), SOON, "a publisher that stands still")
        if publishing(nursery, "invoke", "ok")[-1].kind == "ok":
            return
        child.resume()


def replace(path: Path) -> None:
    """As by an operator who puts a fresh backup in place."""
    copy = path.with_name("copy.db")
    with (
        contextlib.closing(apsw.Connection(str(path))) as source,
        contextlib.closing(apsw.Connection(str(copy))) as into,
    ):
        with into.backup("main", source, "main") as backup:
            backup.step()
        into.execute("PRAGMA journal_mode = delete")
    copy.replace(path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


@pytest.mark.parametrize("plant", [None, BUG])
async def test_what_is_acknowledged_is_in_the_file_that_is_there(tmp_path: Path, plant: str | None) -> None:
    path = tmp_path / "data" / "hub.db"
    path.parent.mkdir()
    async with open_store(path):
        pass
    with Nursery(tmp_path, packages=["tests.torture"], plant=plant) as nursery:
        first = nursery.spawn("publisher", "publisher-a", url=str(path), seed=8, pause=0.02)
        await answers(nursery, "ok")
        await stop_between_calls(first, nursery)
        replace(path)
        first.resume()
        await answers(nursery, "ok" if plant else "info")
        first.kill()
        await first.ended()
        second = nursery.spawn("publisher", "publisher-a", url=str(path), seed=8, pause=0.02)
        await answers(nursery, "ok")
        second.kill()
        await second.ended()
        assert nursery.errors() == ""
    await gather(tmp_path, str(path), tmp_path / "evidence.db")
    broken = check(tmp_path / "evidence.db").broken
    if plant:
        assert "lost" in broken
    else:
        assert not broken & {"lost", "stored_twice", "invented", "halved"}
