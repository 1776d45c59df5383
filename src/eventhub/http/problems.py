"""What went wrong, as RFC 9457 says it: one table from our errors to status codes, and one way to answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from eventhub.errors import (
    AlreadyReported,
    BlockedDestination,
    ClaimLost,
    EventHubError,
    EventNotFound,
    IdempotencyConflict,
    InvalidEventError,
    InvalidKeyError,
    InvalidPayloadError,
    InvalidSubscriberError,
    KeyNotFound,
    NotDeadError,
    NotProcessing,
    PayloadTooLargeError,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    SubscriberChanged,
    SubscriberExists,
    SubscriberNotFound,
)
from eventhub.http.answers import Answer

__all__ = ["Problem", "problem_of", "unforeseen"]

CONTENT_TYPE: Final = b"application/problem+json"
_SOON: Final = 1

_ERRORS: Final[dict[type[EventHubError], tuple[int, str]]] = {
    PayloadTooLargeError: (413, "payload-too-large"),
    InvalidPayloadError: (400, "invalid-payload"),
    InvalidEventError: (422, "invalid-event"),
    IdempotencyConflict: (422, "idempotency-conflict"),
    EventNotFound: (404, "not-found"),
    InvalidKeyError: (422, "invalid-key"),
    KeyNotFound: (404, "not-found"),
    InvalidSubscriberError: (422, "invalid-subscriber"),
    BlockedDestination: (422, "blocked-destination"),
    SubscriberNotFound: (404, "subscriber-not-found"),
    SubscriberExists: (409, "subscriber-exists"),
    SubscriberChanged: (409, "subscriber-changed"),
    SettingsError: (409, "wrong-secret"),
    NotDeadError: (409, "not-dead"),
    ClaimLost: (409, "claim-lost"),
    AlreadyReported: (409, "already-reported"),
    NotProcessing: (409, "not-processing"),
    StoreBusy: (503, "store-busy"),
    StoreUnavailable: (503, "store-unavailable"),
    StoreFull: (503, "store-full"),
    StoreReadOnly: (503, "store-read-only"),
    StoreClosed: (503, "shutting-down"),
}
"""Error → status and kind; an error that is not here is looked up by its parents."""


class Problem(Exception):
    """An answer that says no. ``kind`` is the last part of its type; ``more`` are members of its own."""

    def __init__(
        self, status: int, kind: str, detail: str, *, retry_after: float | None = None, allow: str = "", **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.allow = allow
        self.more = more

    def body(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        return {
            "type": f"urn:eventhub:{self.kind}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def answer(self) -> Answer:
        headers: list[tuple[bytes, bytes]] = []
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, -int(-self.retry_after // 1))).encode()))
        if self.allow:
            headers.append((b"allow", self.allow.encode()))
        if self.status == HTTPStatus.REQUEST_TIMEOUT:
            headers.append((b"connection", b"close"))  # the rest of the body is not waited for
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers.append((b"www-authenticate", b'Bearer realm="eventhub"'))
        return Answer(self.status, msgspec.json.encode(self.body()), content_type=CONTENT_TYPE, headers=tuple(headers))


def problem_of(error: EventHubError, *, reads: bool = False) -> Problem:
    """The problem that one of our errors is for a client; what is not the client's business is not told.

    ``reads`` says that nothing was to be stored, so that nobody need wonder whether it was.
    """
    for kind in type(error).__mro__:
        found = _ERRORS.get(kind)
        if found is not None:
            status, name = found
            retry_after = _SOON if status == HTTPStatus.SERVICE_UNAVAILABLE else None
            detail = _unavailable(error, reads=reads) if isinstance(error, StoreError) else str(error)
            return Problem(status, name, detail, retry_after=retry_after, **_pointer(error))
    return unforeseen()


def _pointer(error: EventHubError) -> dict[str, str]:
    """A pointer to the member that is wrong, where the error knows it: ``headers.X-Team`` is /headers/X-Team."""
    if isinstance(error, BlockedDestination):
        return {"pointer": "/url"}
    if not isinstance(error, InvalidSubscriberError):
        return {}
    name, dot, rest = error.field.partition(".")
    return {"pointer": f"/{name}/{rest.replace('~', '~0').replace('/', '~1')}" if dot else f"/{name}" if name else ""}


def unforeseen() -> Problem:
    """What nobody planned for; the client is told nothing about it."""
    return Problem(500, "internal", "Something went wrong inside the hub; its log says what.")


def _unavailable(error: StoreError, *, reads: bool) -> str:
    """Trouble with the database, without its address or words."""
    if reads and not isinstance(error, StoreClosed):
        return "The database does not answer right now. Try again in a moment."
    if isinstance(error, StoreClosed):
        return "The hub is shutting down. Send the request again to another process, or in a moment."
    if isinstance(error, StoreFull):
        return "The database's disk is full; nothing was stored. Its operator must make room."
    if isinstance(error, StoreReadOnly):
        return "The database cannot be written; nothing was stored. Its operator must look after it."
    return (
        "The database does not answer right now, so nobody knows whether this was stored. Send it again in a moment; "
        "with an idempotency key it counts once."
    )
