"""A disk that may lose its power: what SQLite writes is recorded, and its files are made as such a disk may leave them.

    SQLite ──▶ RecordedFiles (a VFS) ──▶ real files
                    └─▶ operations, in order ──▶ image(end): the files if the power went after ``end`` operations

What was synced is there. Of what was written since, each write is there, or not, or only some of its sectors, whatever
became of the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import apsw
import msgspec

__all__ = ["Cut", "Files", "Gone", "Image", "Operation", "RecordedFiles", "Synced", "Write", "images"]

SECTOR: Final = 512
UNSHARED: Final = "unix"
"""SQLite's own way to files on this system, below ours."""
JOURNALS: Final = ("-wal", "-journal")
Fate = Literal["none", "all", "any"]

Image = dict[str, bytes]


class Write(msgspec.Struct, frozen=True, tag=True, array_like=True):
    file: str
    offset: int
    data: bytes


class Cut(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A file made shorter."""

    file: str
    size: int


class Gone(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A file removed; ``synced`` when its directory was told to remember that."""

    file: str
    synced: bool


class Synced(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What had been written to a file when the sync began is on the disk.

    ``after`` is how many operations there were then; without it, all that come before this one.
    """

    file: str
    after: int | None = None


Operation = Write | Cut | Gone | Synced


class RecordedFiles(apsw.VFS):
    """Every connection of this process that is opened later uses it."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        super().__init__("eventhub-power-loss", UNSHARED, makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _RecordedFile(self.operations, name, flags, Path(path).name if path else None)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        super().xDelete(filename, syncdir)
        self.operations.append(Gone(Path(filename).name, bool(syncdir)))


class _RecordedFile(apsw.VFSFile):
    def __init__(
        self, operations: list[Operation], name: apsw.URIFilename | str | None, flags: list[int], known_as: str | None
    ) -> None:
        super().__init__(UNSHARED, name, flags)
        self._operations, self._file = operations, known_as

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._record(Write(self._file or "", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._record(Cut(self._file or "", newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        after = len(self._operations)  # others may write while this one waits for the disk
        super().xSync(flags)
        self._record(Synced(self._file or "", after))

    def _record(self, operation: Operation) -> None:
        if self._file is not None:
            self._operations.append(operation)


class Files:
    """The files of a disk, as far as it was told to keep them; and what it was not told to keep yet."""

    def __init__(self) -> None:
        self._kept: dict[str, bytearray] = {}
        self._pending: dict[str, list[tuple[int, Operation]]] = {}
        self._done = 0

    def do(self, operation: Operation) -> None:
        file = operation.file
        if isinstance(operation, Synced):
            if file.endswith(JOURNALS) and file not in self._kept:
                self._keep_removals(operation.after)
            self._keep(file, operation.after)
        else:
            self._pending.setdefault(file, []).append((self._done, operation))
            if isinstance(operation, Gone) and operation.synced:
                self._keep_removals(None)
        self._done += 1

    def _keep(self, file: str, after: int | None) -> None:
        """All of a file, or what was done before its sync began."""
        pending = self._pending.get(file, [])
        count = sum(after is None or place < after for place, _ in pending)
        for _, operation in pending[:count]:
            _apply(self._kept, operation)
        del pending[:count]

    def _keep_removals(self, after: int | None) -> None:
        """The directory was synced: SQLite does so, too, when it first syncs a journal that it has made."""
        for file, pending in self._pending.items():
            gone = [place for place, one in pending if isinstance(one, Gone) and (after is None or place < after)]
            if gone:
                self._keep(file, gone[-1] + 1)

    def after_power_loss(self, chance: random.Random) -> Image:
        """The files as they may be found: by chance with nothing, all, or any part of what was not synced."""
        fate: Fate = chance.choice(("none", "all", "any", "any"))
        if fate == "none":
            return {file: bytes(content) for file, content in self._kept.items()}
        found = {file: bytearray(content) for file, content in self._kept.items()}
        for pending in self._pending.values():
            operations = [operation for _, operation in pending]
            for operation in operations if fate == "all" else _survivors(operations, chance):
                _apply(found, operation)
        return {file: bytes(content) for file, content in found.items()}


def images(operations: Sequence[Operation], ends: Sequence[int], chance: random.Random) -> Iterator[tuple[int, Image]]:
    """For each end, in rising order, the files after a loss of power at that place."""
    disk, done = Files(), 0
    for end in sorted(ends):
        for operation in operations[done:end]:
            disk.do(operation)
        done = end
        yield end, disk.after_power_loss(chance)


def _survivors(pending: Sequence[Operation], chance: random.Random) -> Iterator[Operation]:
    """Each by itself; but what was done to a file after it was removed needs the removal."""
    share = chance.choice((0.1, 0.5, 0.9))
    for operation in pending:
        if chance.random() < share:
            yield operation
        elif isinstance(operation, Gone):
            return
        elif isinstance(operation, Write) and len(operation.data) > SECTOR and chance.random() < share:
            yield from _torn(operation, chance)


def _torn(write: Write, chance: random.Random) -> Iterator[Write]:
    for first in range(0, len(write.data), SECTOR):
        if chance.random() < 0.5:
            yield Write(write.file, write.offset + first, write.data[first : first + SECTOR])


def _apply(files: dict[str, bytearray], operation: Operation) -> None:
    match operation:
        case Write(file, offset, data):
            content = files.setdefault(file, bytearray())
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data
        case Cut(file, size):
            del files.setdefault(file, bytearray())[size:]
        case Gone(file):
            files.pop(file, None)
        case Synced():
            pass
