"""Does what was acknowledged outlast a loss of power? Work on SQLite is recorded, then many disks judged.

Each disk is what may be left when the power goes at some moment: SQLite opens it, finds it whole, and everything that
was acknowledged by then must be there. With ``synchronous=NORMAL`` some of it must be missing, else nothing is proved.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from eventhub.queue import EventQueue
from eventhub.store.queries import load_queries
from eventhub.testing.memory import place_in_memory
from eventhub.testing.torture.disks import UNSHARED, Image, Operation, RecordedFiles, images

__all__ = ["Recording", "Verdict", "judge", "record"]

TYPE: Final = "torture"
AT_ONCE: Final = 4
CHECKPOINT_EVERY: Final = 25
MOST_EXAMPLES: Final = 5
ROOM: Final = 1 << 30
SQL: Final = load_queries("eventhub.testing.torture")


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """After so many operations it was said that these events are stored, or finished."""

    after: int
    tokens: list[str]
    finished: bool = False


class Recording(msgspec.Struct, frozen=True):
    """What a hub did, and what it promised meanwhile."""

    file: str
    synchronous: str
    started: int
    """Operations after which the tables were there."""
    operations: list[Operation]
    promises: list[Promise]
    calls: list[list[str]]
    """The events of each call, promised or not: all of them are there, or none."""


class Verdict(msgspec.Struct, kw_only=True):
    """What was found on all disks. ``lost`` counts disks on which something acknowledged was missing."""

    images: int = 0
    promises_checked: int = 0
    lost: int = 0
    unfinished: int = 0
    """Disks on which something that was finished is open again."""
    halved: int = 0
    """Disks with a part of a call."""
    damaged: int = 0
    examples: list[str] = []

    @property
    def clean(self) -> bool:
        return not (self.lost or self.unfinished or self.halved or self.damaged)


def record(*, synchronous: str = "FULL", calls: int = 300, seed: int = 0) -> Recording:
    """Let a hub work in a process of its own, on a disk that is watched."""
    with tempfile.TemporaryDirectory(prefix="eventhub-power-") as directory:
        written = Path(directory) / "recording"
        arguments = [str(written), synchronous, str(calls), str(seed)]
        subprocess.run([sys.executable, "-m", "eventhub.testing.torture.power_loss", *arguments], check=True)  # noqa: S603
        return msgspec.msgpack.decode(written.read_bytes(), type=Recording)


def judge(
    recording: Recording, *, count: int = 5000, seed: int = 0, told: Callable[[int], None] = lambda _: None
) -> Verdict:
    """Make so many disks of a recording and judge each; ``told`` hears how many are done."""
    chance = random.Random(seed)
    ends = [chance.randint(recording.started, len(recording.operations)) for _ in range(count)]
    verdict = Verdict(examples=[])
    with tempfile.TemporaryDirectory(prefix="eventhub-power-", dir=place_in_memory(ROOM)) as directory:
        for end, image in images(recording.operations, ends, chance):
            verdict.images += 1
            _judge_one(recording, end, image, Path(directory), verdict)
            told(verdict.images)
    return verdict


def _judge_one(recording: Recording, end: int, image: Image, directory: Path, verdict: Verdict) -> None:
    for file in directory.iterdir():
        file.unlink()
    for name, content in image.items():
        (directory / name).write_bytes(content)
    try:
        stored = _read(directory / recording.file)
    except apsw.Error as error:
        verdict.damaged += 1
        _note(verdict, end, f"damaged: {error}")
        return
    due = [promise for promise in recording.promises if promise.after <= end]
    verdict.promises_checked += len(due)
    lost = [token for promise in due for token in promise.tokens if token not in stored]
    open_again = [
        token for promise in due if promise.finished for token in promise.tokens if stored.get(token) is False
    ]
    halved = [call[0] for call in recording.calls if len({token in stored for token in call}) > 1]
    verdict.lost += bool(lost)
    verdict.unfinished += bool(open_again)
    verdict.halved += bool(halved)
    for words, tokens in (("lost", lost), ("open again", open_again), ("in part", halved)):
        if tokens:
            _note(verdict, end, f"{len(tokens)} {words}, such as {tokens[0]}")


def _read(file: Path) -> dict[str, bool]:
    """The events by token, and whether each is finished; raises when the file is damaged."""
    connection = apsw.Connection(str(file), vfs=UNSHARED)
    try:
        checked = connection.pragma("integrity_check")
        if checked != "ok":
            raise apsw.CorruptError(str(checked))
        return {token: bool(finished) for token, finished in connection.execute(SQL.stored)}
    finally:
        connection.close()


def _note(verdict: Verdict, end: int, words: str) -> None:
    if len(verdict.examples) < MOST_EXAMPLES:
        verdict.examples.append(f"power lost after operation {end}: {words}")


# --------------------------------------------------------- in its own process


async def _work(disk: RecordedFiles, path: Path, synchronous: str, calls: int, seed: int) -> Recording:
    chance = random.Random(seed)
    promises: list[Promise] = []
    made: list[list[str]] = []
    numbers = iter(range(calls))

    async def publisher(queue: EventQueue, checkpoints: apsw.Connection) -> None:
        for number in numbers:
            tokens = [f"{number}-{place}" for place in range(chance.choice((1, 1, 1, 7)))]
            made.append(tokens)
            events: list[dict[str, Any]] = [{"type": TYPE, "payload": {"token": token}} for token in tokens]
            await queue.publish_many(events)
            promises.append(Promise(len(disk.operations), tokens))
            if chance.random() < 0.5:
                polled = await queue.poll()
                if polled is not None:
                    await queue.finalize(polled.id, success=True)
                    promises.append(Promise(len(disk.operations), [polled.payload["token"]], finished=True))
            if number % CHECKPOINT_EVERY == 0:
                await asyncio.to_thread(checkpoints.execute, "PRAGMA wal_checkpoint(RESTART)")

    async with EventQueue(f"sqlite:///{path}?synchronous={synchronous}") as queue:
        await queue.store.open()
        checkpoints = apsw.Connection(str(path))
        checkpoints.execute(f"PRAGMA synchronous = {synchronous}")
        checkpoints.set_busy_timeout(10_000)
        started = len(disk.operations)
        await asyncio.gather(*(publisher(queue, checkpoints) for _ in range(AT_ONCE)))
        ended = len(disk.operations)  # closing makes a checkpoint, which is another story
        checkpoints.close()
    return Recording(path.name, synchronous, started, disk.operations[:ended], promises, made)


def _main(written: str, synchronous: str, calls: str, seed: str) -> None:
    disk = RecordedFiles()
    with tempfile.TemporaryDirectory(prefix="eventhub-power-", dir=place_in_memory(ROOM)) as directory:
        recording = asyncio.run(_work(disk, Path(directory) / "hub.db", synchronous, int(calls), int(seed)))
    Path(written).write_bytes(msgspec.msgpack.encode(recording))


if __name__ == "__main__":
    _main(*sys.argv[1:])
