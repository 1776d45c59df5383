"""Blocks of relations shared out among tasks, so that each reads about as much as the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from eventhub.pipeline.source.database import Blocks

__all__ = ["Stretch", "shared_out"]


class Stretch(msgspec.Struct, frozen=True):
    """Blocks of a relation that are to be read: from ``first`` to below ``end``."""

    relation: str
    first: int
    end: int

    @property
    def blocks(self) -> int:
        return self.end - self.first


def shared_out(stretches: Sequence[Stretch], wanted: int, *, growing: bool = False) -> list[tuple[Blocks, ...]]:
    """All blocks in at most ``wanted`` parts; of a relation that is growing the last part has no end."""
    each = max(math.ceil(sum(one.blocks for one in stretches) / wanted), 1)
    parts: list[list[Blocks]] = [[]]
    room = each
    for one in stretches:
        first = one.first
        while True:
            if not room:
                parts.append([])
                room = each
            taken = min(room, one.end - first)
            ends = first + taken >= one.end
            if taken or growing:
                parts[-1].append(Blocks(one.relation, first, None if ends and growing else first + taken))
            first, room = first + taken, room - taken
            if ends:
                break
    return [tuple(part) for part in parts if part]
