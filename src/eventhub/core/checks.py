"""What counts as a number in settings: neither a truth value nor a text, and never NaN."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

__all__ = ["is_count", "is_number"]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any, *, least: int = 0) -> TypeGuard[int]:
    """Whether it is a whole number, and large enough."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
