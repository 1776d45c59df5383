"""The ledger of what was copied to the lake: ranges of rows that cannot change any more, each copied once.

    horizon ─▶ intend the range behind the last one ─▶ files are written ─▶ the lake's own commit ─▶ done

A **position** is a transaction number in PostgreSQL and a row's id in SQLite. Everything below the horizon is settled:
no row will ever be committed there, so a range below it can be read again and gives the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec

__all__ = ["COPIED", "DATASETS", "Dataset", "LakeCommit", "Ledger", "LockHolder", "Waiting", "to_lake_commit"]

Dataset = Literal["events", "event_log", "audit"]
DATASETS: Final[tuple[Dataset, ...]] = ("events", "event_log")
"""The history, which can leave the database and come back."""
COPIED: Final[tuple[Dataset, ...]] = (*DATASETS, "audit")
"""All that is copied to the lake."""


class LakeCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One copy: the rows of a dataset from position ``first`` to below ``last``; without ``done_at``, an intention."""

    dataset: Dataset
    number: int
    first: int
    last: int
    rows: int | None = None
    created_at: datetime
    done_at: datetime | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it starts from the beginning although there were copies before: the lake has some of its rows."""
        return self.first == 0 and self.number > 1


class Waiting(msgspec.Struct, frozen=True):
    """Rows that are not in the lake yet: how many, and since when the oldest of them waits."""

    rows: int
    oldest: datetime | None = None


class LockHolder(msgspec.Struct, frozen=True):
    """Who does shared work now, and until when unless it goes on."""

    owner: str
    fence: int
    until: datetime


def to_lake_commit(row: Sequence[Any], time: Callable[[Any], datetime]) -> LakeCommit:
    dataset, number, first, last, rows, created_at, done_at = row
    return LakeCommit(
        dataset=dataset,
        number=number,
        first=first,
        last=last,
        rows=rows,
        created_at=time(created_at),
        done_at=None if done_at is None else time(done_at),
    )


class Ledger(ABC):
    """The operations; each opens the store when it is not open yet."""

    @abstractmethod
    async def horizon(self, dataset: Dataset) -> int:
        """The position below which nothing will be committed any more."""

    @abstractmethod
    async def origin(self) -> str:
        """Where positions come from: they mean nothing in a database that was restored elsewhere."""

    @abstractmethod
    async def lake_commits(self, dataset: Dataset, *, limit: int = 20) -> list[LakeCommit]:
        """The last copies of a dataset, newest first; an intended one is the first of them."""

    @abstractmethod
    async def intend_commit(self, dataset: Dataset, *, last: int, now: datetime | None = None) -> LakeCommit | None:
        """The copy that is under way, or else a new one from where the last one ended to below ``last``.

        None when there is nothing between.
        """

    @abstractmethod
    async def finish_commit(self, dataset: Dataset, number: int, rows: int, *, now: datetime | None = None) -> bool:
        """The lake has it; False when that was known, or there is no such intention."""

    @abstractmethod
    async def restart_commits(
        self, dataset: Dataset, number: int, *, last: int, now: datetime | None = None
    ) -> LakeCommit:
        """Intend to copy everything below ``last`` under this number, instead of what may be under way."""

    @abstractmethod
    async def reposition(self, dataset: Dataset) -> int:
        """Give rows whose positions are of another server new ones; the horizon must pass what is returned."""

    @abstractmethod
    async def waiting(self, dataset: Dataset, position: int) -> Waiting:
        """The rows at and above a position, whether they can be copied yet or not."""

    @abstractmethod
    async def horizon_age(self) -> timedelta | None:
        """For how long the oldest transaction that writes has held the horizon back; None without one."""

    @abstractmethod
    async def take_lock(self, name: str, owner: str, lease: timedelta, *, now: datetime | None = None) -> int | None:
        """Be the one who does this work, for a while; the fence of it, or None when somebody else is."""

    @abstractmethod
    async def keep_lock(self, name: str, fence: int, lease: timedelta, *, now: datetime | None = None) -> bool:
        """Go on for another while; False when somebody else has taken over."""

    @abstractmethod
    async def drop_lock(self, name: str, fence: int) -> None:
        """Let others do it."""

    @abstractmethod
    async def lock_holder(self, name: str) -> LockHolder | None:
        """Who holds the lock; None when nobody does, or its time is over."""
