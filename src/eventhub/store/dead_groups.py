"""Dead letters that died of the same: grouped by reason and by what their last errors have in common."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from eventhub.core.fingerprints import fingerprint

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.messages import DeadBrief, DeadFilter

__all__ = ["MOST_LETTERS", "DeadGroup", "DeadGroups", "group_dead", "of_fingerprint"]

MOST_LETTERS: Final = 10_000
"""So many are looked at, the latest deaths: what is older is not grouped."""
SHOWN: Final = 5
NO_ERROR: Final = ""
"""The fingerprint of letters without an error."""


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Letters of one reason and fingerprint; of types, subscribers and ids a few, the latest."""

    reason: str
    fingerprint: str
    example_error: str | None
    count: int
    first_at: datetime
    last_at: datetime
    types: list[str]
    subscribers: list[int]
    example_ids: list[int]


class DeadGroups(msgspec.Struct, frozen=True):
    """The groups, the largest first; ``more``: there are letters that were not looked at."""

    groups: list[DeadGroup]
    looked_at: int
    more: bool


async def group_dead(store: Store, wanted: DeadFilter) -> DeadGroups:
    """The groups of those letters that fit."""
    found = await store.dead_briefs(wanted, limit=MOST_LETTERS + 1)
    looked_at = found[:MOST_LETTERS]
    groups = await asyncio.to_thread(_grouped, looked_at)  # thousands of long texts take a while
    return DeadGroups(groups, len(looked_at), len(found) > MOST_LETTERS)


async def of_fingerprint(store: Store, wanted: DeadFilter, mark: str) -> DeadFilter:
    """The same filter, for those letters alone that have this fingerprint, of the latest that fit."""
    found = await store.dead_briefs(wanted, limit=MOST_LETTERS)
    ids = await asyncio.to_thread(lambda: tuple(letter.delivery_id for letter in found if _mark(letter) == mark))
    return replace(wanted, ids=ids)


def _grouped(letters: Sequence[DeadBrief]) -> list[DeadGroup]:
    gathered: dict[tuple[str, str], list[DeadBrief]] = defaultdict(list)
    for letter in letters:
        gathered[letter.reason, _mark(letter)].append(letter)
    groups = [
        DeadGroup(
            reason=reason,
            fingerprint=mark,
            example_error=of_group[0].error,
            count=len(of_group),
            first_at=min(letter.dead_at for letter in of_group),
            last_at=max(letter.dead_at for letter in of_group),
            types=list(dict.fromkeys(letter.type for letter in of_group))[:SHOWN],
            subscribers=list(dict.fromkeys(each.subscriber for each in of_group if each.subscriber is not None))[
                :SHOWN
            ],
            example_ids=[letter.delivery_id for letter in of_group[:SHOWN]],
        )
        for (reason, mark), of_group in gathered.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.reason, group.fingerprint))


def _mark(letter: DeadBrief) -> str:
    return NO_ERROR if letter.error is None else _known(letter.error)


_known = lru_cache(maxsize=MOST_LETTERS)(fingerprint)
