"""Rows that were claimed: whose they are, and who has to wait for more."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from eventhub.store.postgres.reading import same
from eventhub.store.rows import to_claims
from eventhub.store.values import Claim, Wanted

__all__ = ["claimed", "is_enough", "shared_out", "without"]

WORKER: Final = 18
"""Where a claimed row says whose it is."""


def is_enough(rows: list[Any], limit: int, workers: list[str]) -> bool:
    """One worker is content with some; of many, each wants one."""
    return len(rows) >= limit or (len(workers) == 1 and bool(rows))


def without(workers: list[str], rows: list[Any]) -> list[str]:
    """Those who still have nothing, in their order; the one worker gets everything."""
    if len(workers) == 1 or not rows:
        return workers
    served = Counter(row[WORKER] for row in rows)
    left = []
    for worker in workers:
        if served[worker]:
            served[worker] -= 1
        else:
            left.append(worker)
    return left


def shared_out(rows: list[Any], wanted: Sequence[Wanted]) -> list[list[Claim]]:
    """Who gets what: as the rows say, and between claims of the same name the first comes first."""
    of_worker: dict[str, deque[Claim]] = {}
    found = claimed(rows, wanted[0].queue, wanted[0].lease)
    for row, claim in zip(rows, found, strict=True):
        of_worker.setdefault(row[WORKER], deque()).append(claim)
    shared = []
    for one in wanted:
        mine = of_worker.get(one.worker, deque())
        shared.append([mine.popleft() for _ in range(min(one.limit, len(mine)))])
    return shared


def claimed(rows: list[Any], queue: str, lease: timedelta) -> list[Claim]:
    """The rows of a claim as values; the first of them tells when the lease ends."""
    if not rows:
        return []
    until = rows[0][17]
    return to_claims(rows, raised=0, queue=queue, now=until - lease, until=until, time=same)
