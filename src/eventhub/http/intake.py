"""What request bodies may cost a server process: their bytes, their turns, and the values that are in them.

Bytes are counted as they arrive and until the request is answered; beyond the limit there is 503. Large bodies are
worked on in a few turns. How many values a body holds is told from its bytes, before anything is built of them.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any, Final, Self

from eventhub.http.problems import Problem

__all__ = ["LARGE", "MAX_CONTAINERS", "MAX_VALUES", "Intake", "ReceivedBytes", "check_values"]

LARGE: Final = 262_144
"""Bytes of a body beyond which its work is done in a thread, in turn; below, a few milliseconds are all it costs."""
LARGE_AT_ONCE: Final = 2
MAX_VALUES: Final = 1_000_000
"""In one body: more than the largest payload can have. A value takes some 30 to 70 bytes of memory, ..."""
MAX_CONTAINERS: Final = 400_000
"""... a list or an object 60 to 230, for two or three bytes of text."""
CHUNK: Final = 1_048_576
_SOON: Final = 1.0
_MEGABYTE: Final = 1_000_000


class Intake:
    """The bodies of one process."""

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._free = megabytes * _MEGABYTE
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE)

    @property
    def free_bytes(self) -> int:
        return self._free

    def receive(self) -> ReceivedBytes:
        """The bytes of one body, to be entered while it is under way."""
        return ReceivedBytes(self)

    def turn(self, size: int) -> Any:
        """Wait for a turn to work on a body of so many bytes; a small one needs none."""
        return self._turns if size > LARGE else nullcontext()

    def take(self, size: int) -> None:
        self.check(size)
        self._free -= size

    def check(self, size: int) -> None:
        """Refuse what cannot be held now."""
        if size > self._free:
            raise Problem(
                503,
                "bodies-limit",
                f"The bodies that are under way here fill the {self._megabytes} MB that they may have. Send it "
                "again in a moment.",
                retry_after=_SOON,
            )

    def give_back(self, size: int) -> None:
        self._free += size


class ReceivedBytes:
    """Those of one body, given back at the end."""

    __slots__ = ("_intake", "_size")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._size = 0

    def expect(self, size: int) -> None:
        """So many are announced: refuse them before they come, if there is no room."""
        self._intake.check(size)

    def add(self, size: int) -> None:
        self._intake.take(size)
        self._size += size

    def release(self) -> None:
        self._intake.give_back(self._size)
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def check_values(raw: bytes) -> None:
    """Refuse JSON with more values than a body may have.

    A value begins behind an opening bracket or a comma. Those in texts count only when there are suspiciously many.
    """
    if len(raw) <= MAX_CONTAINERS:
        return
    containers = raw.count(b"[") + raw.count(b"{")
    if containers <= MAX_CONTAINERS and containers + raw.count(b",") <= MAX_VALUES:
        return
    containers = commas = 0
    within = 0
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    for start in range(0, len(plain), CHUNK):
        parts = plain[start : start + CHUNK].split(b'"')
        outside = b"".join(parts[within::2])
        within = (within + len(parts) - 1) % 2
        containers += outside.count(b"[") + outside.count(b"{")
        commas += outside.count(b",")
        if containers > MAX_CONTAINERS or containers + commas > MAX_VALUES:
            raise Problem(
                413,
                "too-many-values",
                f"The body has more than {MAX_VALUES:,} values, or {MAX_CONTAINERS:,} lists and objects. Send less at "
                "once.",
            )
