"""What went wrong, as clients read it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from eventhub.http.bodies.basics import Answered

__all__ = [
    "ProblemBody",
]


class ProblemBody(Answered):
    """RFC 9457: what went wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    pointer: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    retry_count: int | UnsetType = UNSET
    max_retries: int | UnsetType = UNSET
