"""What was acknowledged outlasts a loss of power at any moment, and a hub that does not sync is found out."""

import random
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from eventhub.testing.torture import disks
from eventhub.testing.torture.disks import Cut, Files, Gone, Operation, Synced, Write, images
from eventhub.testing.torture.power_loss import judge, record


def test_nothing_acknowledged_is_lost_when_every_commit_is_synced() -> None:
    verdict = judge(record(synchronous="FULL", calls=150, seed=1), count=400, seed=1)
    assert verdict.clean, verdict.examples
    assert verdict.images == 400
    assert verdict.promises_checked > 10_000


def test_without_syncs_something_is_lost_or_the_proof_proves_nothing() -> None:
    verdict = judge(record(synchronous="NORMAL", calls=100, seed=2), count=100, seed=2)
    assert verdict.lost > 10
    assert not verdict.clean
    assert any("lost, such as" in example for example in verdict.examples)


def after(*operations: Operation, seed: int) -> dict[str, bytes]:
    ((_, image),) = images(operations, [len(operations)], random.Random(seed))
    return image


def possible(*operations: Operation) -> set[tuple[tuple[str, bytes], ...]]:
    return {tuple(sorted(after(*operations, seed=seed).items())) for seed in range(200)}


def test_what_was_synced_is_there_and_what_was_not_may_be() -> None:
    found = possible(Write("a", 0, b"12345678"), Synced("a"), Write("a", 2, b"xx"), Cut("a", 6))
    assert found == {(("a", content),) for content in (b"12345678", b"12xx5678", b"123456", b"12xx56")}


def test_a_write_may_be_torn_between_sectors() -> None:
    found = possible(Write("a", 0, bytes(2048)), Synced("a"), Write("a", 0, b"1" * 1024))
    sectors = {(dict(image)["a"][:512], dict(image)["a"][512:1024]) for image in found}
    assert sectors == {(one * 512, other * 512) for one in (b"\0", b"1") for other in (b"\0", b"1")}


def test_a_removal_is_final_when_its_directory_was_synced() -> None:
    made = (Write("a-journal", 0, b"x"), Synced("a-journal"))
    assert possible(*made, Gone("a-journal", synced=True)) == {()}
    assert possible(*made, Gone("a-journal", synced=False)) == {(), (("a-journal", b"x"),)}


def test_the_first_sync_of_a_new_journal_syncs_its_directory() -> None:
    disk = Files()
    for operation in (
        Write("a-journal", 0, b"x"),
        Synced("a-journal"),
        Gone("a-journal", synced=False),
        Write("a-wal", 0, b"y"),
        Synced("a-wal"),
    ):
        disk.do(operation)
    assert disk.after_power_loss(random.Random(0)) == {"a-wal": b"y"}


def test_what_is_written_while_a_sync_goes_on_is_not_synced_by_it() -> None:
    written = (Write("a", 0, b"12345678"), Write("a", 2, b"xx"), Synced("a", after=1))
    assert possible(*written) == {(("a", content),) for content in (b"12345678", b"12xx5678")}


def test_a_slow_sync_keeps_only_what_was_there_when_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads: one writes while the other waits for the disk."""
    waiting, written = threading.Event(), threading.Event()

    class SlowFile(apsw.VFSFile):
        def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
            waiting.set()
            assert written.wait(10)
            super().xSync(flags)

    class SlowDisk(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("slow", "unix")

        def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
            return SlowFile("unix", name, flags)

    monkeypatch.setattr(disks, "UNSHARED", "slow")
    slow, files = SlowDisk(), disks.RecordedFiles()
    try:
        flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_READWRITE, 0]
        file = files.xOpen(str(tmp_path / "a"), flags)
        file.xWrite(b"12345678", 0)
        syncing = threading.Thread(target=file.xSync, args=(apsw.SQLITE_SYNC_FULL,))
        syncing.start()
        assert waiting.wait(10)
        file.xWrite(b"xx", 2)
        written.set()
        syncing.join()
        file.xClose()
    finally:
        files.unregister()
        slow.unregister()
    assert possible(*files.operations) == {(("a", content),) for content in (b"12345678", b"12xx5678")}
