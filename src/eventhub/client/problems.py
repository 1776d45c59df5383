"""From an answer that says no to the error that stands for it, the same one that the hub raises in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from eventhub.client.answers import ProblemDetails
from eventhub.errors import (
    AlreadyReported,
    BlockedDestination,
    ClaimLost,
    EventHubError,
    EventNotFound,
    Forbidden,
    IdempotencyConflict,
    InvalidEventError,
    InvalidPayloadError,
    InvalidSubscriberError,
    NotDeadError,
    NotProcessing,
    PayloadTooLargeError,
    RemoteError,
    ServerUnavailable,
    SubscriberChanged,
    SubscriberExists,
    SubscriberNotFound,
    Unauthorized,
)

__all__ = ["AWAY", "error_of", "read_problem"]

AWAY: Final = frozenset({429, 502, 503, 504})
"""The server, or what stands before it, cannot answer right now."""

_KINDS: Final[dict[str, type[EventHubError]]] = {
    "already-reported": AlreadyReported,
    "blocked-destination": BlockedDestination,
    "body-too-large": PayloadTooLargeError,
    "claim-lost": ClaimLost,
    "idempotency-conflict": IdempotencyConflict,
    "invalid-event": InvalidEventError,
    "invalid-json": InvalidPayloadError,
    "invalid-payload": InvalidPayloadError,
    "not-dead": NotDeadError,
    "not-found": EventNotFound,
    "not-processing": NotProcessing,
    "payload-too-large": PayloadTooLargeError,
    "subscriber-changed": SubscriberChanged,
    "subscriber-exists": SubscriberExists,
    "subscriber-not-found": SubscriberNotFound,
}
_STATUSES: Final[dict[int, type[RemoteError]]] = {401: Unauthorized, 403: Forbidden}
_SHOWN: Final = 200


def read_problem(status: int, body: bytes) -> ProblemDetails:
    """What the answer says about the problem; one that is not from a hub is quoted."""
    try:
        problem = msgspec.json.decode(body, type=ProblemDetails)
    except msgspec.MsgspecError:
        problem = ProblemDetails()
    text = problem.detail or problem.title or body[:_SHOWN].decode("utf-8", "replace").strip() or "no more is said"
    return msgspec.structs.replace(problem, status=status, detail=text)


def error_of(problem: ProblemDetails, headers: Mapping[str, str]) -> EventHubError:
    """The error that a problem is."""
    if problem.status in AWAY:
        return ServerUnavailable(f"{problem.status}: {problem.detail}", retry_after=_seconds(headers))
    known = _KINDS.get(problem.kind)
    if known is not None:
        return known(problem.detail)
    if problem.kind == "invalid-subscriber":
        return InvalidSubscriberError(problem.detail, field=(problem.pointer or "").lstrip("/").replace("/", "."))
    where = f" (at {problem.pointer})" if problem.pointer else ""
    kind = _STATUSES.get(problem.status, RemoteError)
    return kind(f"{problem.detail}{where}", status=problem.status, type=problem.type)


def _seconds(headers: Mapping[str, str]) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
