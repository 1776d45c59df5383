"""Keeping the lake in order: days with many small files get few large ones, and what nobody needs is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from eventhub.lake.place import Lake

__all__ = ["Tidied", "tidy"]

MANY: Final = 16
SMALL: Final = 64 << 20


class Tidied(msgspec.Struct, frozen=True):
    """What was done to a table: files that became fewer, and files that were deleted."""

    table: str
    merged: int
    into: int
    deleted: int


def tidy(lake: Lake, *, clean: bool) -> list[Tidied]:
    """Compact what is crowded, in all tables; with ``clean`` also delete files that are not needed any more."""
    done = []
    for path in lake.tables():
        table = lake.table(path)
        days = table.crowded_days(many=MANY, small=SMALL)
        figures = table.compact(days) if days else {}
        deleted = len(table.clean()) if clean else 0
        if figures or deleted:
            done.append(Tidied(path, figures.get("numFilesRemoved", 0), figures.get("numFilesAdded", 0), deleted))
    return done
