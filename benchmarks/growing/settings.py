"""Which curves are drawn, and over which sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

__all__ = ["CURVES", "SIZES", "Curve", "Settings"]

Curve = Literal["backlog", "subscribers", "keys", "tags"]
CURVES: Final[tuple[Curve, ...]] = ("backlog", "subscribers", "keys", "tags")
SIZES: Final[Mapping[Curve, tuple[int, ...]]] = {
    "backlog": (10_000, 100_000, 1_000_000, 5_000_000),
    "subscribers": (1, 10, 100, 1_000),
    "keys": (1, 10, 100, 1_000, 10_000),
    "tags": (1, 10, 100),
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``events`` are published and drained at each visit of a size, ``messages`` delivered to subscribers."""

    events: int = 20_000
    messages: int = 20_000
    walks: int = 3
    only: tuple[str, ...] = CURVES
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("events", "messages", "walks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more.")
        unknown = [name for name in self.only if name not in CURVES]
        if unknown:
            raise ValueError(f"There is no curve {', '.join(unknown)}; there are {', '.join(CURVES)}.")
        if self.sizes and len(self.only) != 1:
            raise ValueError("Sizes are those of one curve; choose it with --only.")
        if self.sizes and (min(self.sizes) < 1 or list(self.sizes) != sorted(set(self.sizes))):
            raise ValueError(f"The sizes {', '.join(map(str, self.sizes))} do not grow from 1 or more.")

    @property
    def curves(self) -> tuple[Curve, ...]:
        return tuple(curve for curve in CURVES if curve in self.only)

    def sizes_of(self, curve: Curve) -> tuple[int, ...]:
        return self.sizes or SIZES[curve]
