"""What each process says it did, in a file of its own that outlives it: the evidence that the checker judges.

    invoke ──▶ the call ──▶ ok      it happened
                       ├──▶ fail    it did not happen
                       └──▶ info    nobody knows: the answer never came

One line a record, one ``write`` a call, straight to the kernel: a killed process leaves at most its last line torn.
"""

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

Kind = Literal["invoke", "ok", "fail", "info"]
Facts = dict[str, Any]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line. ``time`` is the machine's monotonic clock, the same for all processes; ``wall`` is for leases."""

    process: str
    call: int
    kind: Kind
    op: str
    time: float
    wall: float
    id: int | None = None
    fence: int | None = None
    attempt: int | None = None
    key: str | None = None
    token: str | None = None
    hash: str | None = None
    batch: str | None = None
    size: int | None = None
    idempotency: str | None = None
    limit: int | None = None
    outcome: str | None = None
    accepted: bool | None = None
    until: float | None = None
    worker: str | None = None
    error: str | None = None
    broadcast: bool | None = None


class Call:
    """A call under way; exactly one answer is written, unless the process dies first."""

    def __init__(self, history: "History", op: str, items: Sequence[Facts]) -> None:
        self._history, self.op, self._items = history, op, items
        self.number = next(history.calls)
        history.write(self, "invoke", items)

    def ok(self, items: Sequence[Facts] | None = None) -> None:
        self._history.write(self, "ok", self._items if items is None else items)

    def fail(self, error: object) -> None:
        self._history.write(self, "fail", [{**item, "error": str(error)} for item in self._items])

    def info(self, error: object) -> None:
        self._history.write(self, "info", [{**item, "error": str(error)} for item in self._items])


class History:
    """The file of one process."""

    def __init__(self, directory: Path, process: str) -> None:
        self.process = process
        self.calls = itertools.count(1)
        self._file = os.open(directory / f"{process}.jsonl", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def invoke(self, op: str, items: Sequence[Facts] = ({},)) -> Call:
        return Call(self, op, items)

    def note(self, op: str, **facts: Any) -> None:
        """Something that simply happened."""
        self.invoke(op, []).ok([facts])

    def write(self, call: Call, kind: Kind, items: Iterable[Facts]) -> None:
        now, wall = time.monotonic(), time.time()
        lines = [
            msgspec.json.encode(
                Record(process=self.process, call=call.number, kind=kind, op=call.op, time=now, wall=wall, **item)
            )
            for item in items
        ]
        if lines:
            os.write(self._file, b"\n".join(lines) + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> Iterator[Record]:
    """The records of one process; a torn last line was never finished and says nothing."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield msgspec.json.decode(line, type=Record)


def read_all(directory: Path, pattern: str = "*") -> list[Record]:
    """Every record of every process, in the order of time."""
    records = [record for path in directory.glob(f"{pattern}.jsonl") for record in read(path)]
    return sorted(records, key=lambda record: record.time)


def hash_of(payload: Any) -> str:
    return blake2b(json.dumps(payload, sort_keys=True).encode(), digest_size=8).hexdigest()
