"""How long a call may take before its caller hears that the database does not answer: one limit over all its steps.

    call ──► wait for the batch ──► wait for a connection ──► statements, tried again after a deadlock ──► answer
    └────────────────────────────── CALL_SECONDS, whatever took so long ────────────────────────────────┘

A single statement that takes STATEMENT_SECONDS is cancelled on the server, which leaves time for that. What asks
whether the database is there at all waits for CHECK_SECONDS.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from time import monotonic
from typing import Final

__all__ = [
    "CALL_SECONDS",
    "CANCEL_SECONDS",
    "CHECK_SECONDS",
    "STATEMENT_SECONDS",
    "begin_afresh",
    "time_left",
    "within_call",
]

CALL_SECONDS: Final = 55.0
"""A minute over HTTP, with what else is done for a request."""
STATEMENT_SECONDS: Final = 50.0
CHECK_SECONDS: Final = 4.0
CANCEL_SECONDS: Final = 5.0
"""For the server to confirm that a statement was cancelled; then its connection is cut."""

_ends_at: ContextVar[float | None] = ContextVar("call_ends_at", default=None)


def time_left() -> float:
    """Seconds that the present call has left; at least a moment, for drivers take no less as a limit."""
    ends_at = _ends_at.get()
    return CALL_SECONDS if ends_at is None else max(ends_at - monotonic(), 0.001)


class within_call:  # noqa: N801 - read as a word, like contextlib's suppress
    """All steps inside belong to one call, which began at this time of the monotonic clock; a call around it counts."""

    __slots__ = ("_began", "_token")

    def __init__(self, began: float | None = None) -> None:
        self._began = began
        self._token: Token[float | None] | None = None

    def __enter__(self) -> None:
        if _ends_at.get() is None:
            self._token = _ends_at.set((monotonic() if self._began is None else self._began) + CALL_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _ends_at.reset(self._token)


def begin_afresh() -> None:
    """In a task that outlives the call that started it: what it does from here on is no part of that call."""
    _ends_at.set(None)
