"""A process that publishes on a disk whose n-th sync kills it, before or after it is done, or fails."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from eventhub.errors import StoreError
from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.testing.torture.history import History

Fate = Literal["killed before", "killed after", "failed"]


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    at: int
    fate: Fate
    calls: int = 50


class Disk(apsw.VFS):
    """The disk of this process; it counts from the moment it is told to."""

    def __init__(self, at: int, fate: Fate) -> None:
        self.left, self.fate, self.armed = at, fate, False
        super().__init__("eventhub-syncing", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(self, name, flags)

    def is_due(self) -> bool:
        self.left -= self.armed
        return self.armed and self.left == 0


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        due = self._disk.is_due()
        if due and self._disk.fate == "failed":
            raise apsw.IOError("The disk says EIO.")
        if due and self._disk.fate == "killed before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().xSync(flags)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    disk = Disk(arguments.at, arguments.fate)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(publish(arguments, disk, history))


async def publish(arguments: Arguments, disk: Disk, history: History) -> None:
    async with open_store(arguments.url) as store:
        queue = EventQueue(store, queue="crash")
        disk.armed = True
        for number in range(arguments.calls):
            tokens = [f"{arguments.process}-{number}-{place}" for place in range(1 + number % 3)]
            call = history.invoke("publish", [{"token": token} for token in tokens])
            try:
                ids = await queue.publish_many({"type": "t", "payload": {"token": token}} for token in tokens)
            except StoreError as error:
                call.fail(error)
            else:
                call.ok([{"token": token, "id": number} for token, number in zip(tokens, ids, strict=True)])
            await work_on_one(queue, history)
    history.note("end")


async def work_on_one(queue: EventQueue, history: History) -> None:
    """A claim and a report, which sync as well."""
    try:
        polled = await queue.poll()
        if polled is not None:
            call = history.invoke("report", [{"id": polled.id}])
            await queue.finalize(polled)
            call.ok()
    except StoreError:
        return
