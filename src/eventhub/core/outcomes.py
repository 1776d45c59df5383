"""What a handler of the queue may answer, and how the answers of all handlers become one verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

__all__ = ["HandlerResult", "PermanentError", "Success", "TransientError", "Verdict", "verdict"]


class Success(msgspec.Struct, frozen=True):
    """The handler did its work; ``value`` is what it gave back, if anything."""

    value: Any = None

    @property
    def kind(self) -> Literal["success"]:
        return "success"


class TransientError(msgspec.Struct, frozen=True):
    """The handler failed in a way that may pass; it will be run again."""

    source: str
    message: str

    @property
    def kind(self) -> Literal["transient"]:
        return "transient"

    def __str__(self) -> str:
        return f"{self.source}: {self.message}"


class PermanentError(msgspec.Struct, frozen=True):
    """The handler failed for good; running it again would not help."""

    source: str
    message: str

    @property
    def kind(self) -> Literal["permanent"]:
        return "permanent"

    def __str__(self) -> str:
        return f"{self.source}: {self.message}"


HandlerResult = Success | TransientError | PermanentError


class Verdict(msgspec.Struct, frozen=True):
    """What to do with the event after a pass over its handlers."""

    kind: Literal["complete", "errors", "retry"]
    errors: tuple[TransientError | PermanentError, ...] = ()


def verdict(results: Iterable[HandlerResult]) -> Verdict:
    """Any permanent error ends the event with the permanent errors only; else any transient error retries it."""
    results = tuple(results)
    permanent = tuple(r for r in results if isinstance(r, PermanentError))
    if permanent:
        return Verdict("errors", permanent)
    transient = tuple(r for r in results if isinstance(r, TransientError))
    if transient:
        return Verdict("retry", transient)
    return Verdict("complete")
