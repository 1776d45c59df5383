"""Every error the hub raises, and the remedy each one carries.

EventHubError
├── InvalidEventError (ValueError)     the publisher's mistake; nothing was stored
│   ├── InvalidPayloadError            the payload is not strict JSON
│   │   └── PayloadTooLargeError       the payload is over the size limit
│   └── InvalidPatternError            a subscription pattern that cannot be used
├── IdempotencyConflict                the same key was used for another event
├── EventNotFound (LookupError)        no event with that id
├── NotDeadError                       the event is not in the dead letter queue
├── ClaimLost                          another worker holds, or held, the delivery
├── AlreadyReported                    the claim was reported before, with the opposite outcome
├── NotProcessing                      nobody is working on the event, so there is nothing to reset
├── HandlerExistsError (ValueError)    a handler id is taken
├── InvalidKeyError (ValueError)       a name, scope or expiry that an API key cannot have
├── KeyNotFound (LookupError)          no API key with that id
├── InvalidSubscriberError (ValueError) a subscriber that cannot be had: ``field`` says which part
├── SubscriberNotFound (LookupError)   no subscriber with that id or name
├── SubscriberExists                   a subscriber has this name already
├── SubscriberChanged                  somebody else was faster; nothing was changed
├── BlockedDestination (ValueError)    an address that webhooks must not be sent to
├── EventBusShutdownError              the bus was told to stop
├── NestedPublishError                 a handler waits for an event that would wait for itself, or is too deep
├── LakeMismatch                       the lake and the database do not fit together
├── SparkLost                          the Java process of Spark has ended
├── SettingsError (ValueError)         a setting has a value that cannot work
├── ServerUnavailable                  a hub cannot be reached over HTTP, or cannot answer now
├── RemoteError                        a hub refused a request for a reason of its own
│   ├── Unauthorized                   it wants a key, or another one
│   └── Forbidden                      the key may not do this
└── StoreError                         the database
    ├── StoreUnavailable               it cannot be reached right now
    ├── StoreBusy                      another process holds its lock for too long
    ├── StoreReadOnly                  it cannot be written
    ├── StoreFull                      its disk has no room
    ├── StoreClosed                    it was closed by this process
    └── SchemaMismatch                 its tables are of another version
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AlreadyReported",
    "BlockedDestination",
    "ClaimLost",
    "EventBusShutdownError",
    "EventHubError",
    "EventNotFound",
    "Forbidden",
    "HandlerExistsError",
    "IdempotencyConflict",
    "InvalidEventError",
    "InvalidKeyError",
    "InvalidPatternError",
    "InvalidPayloadError",
    "InvalidSubscriberError",
    "KeyNotFound",
    "LakeMismatch",
    "NestedPublishError",
    "NotDeadError",
    "NotProcessing",
    "PayloadTooLargeError",
    "RemoteError",
    "SchemaMismatch",
    "ServerUnavailable",
    "SettingsError",
    "SparkLost",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "SubscriberChanged",
    "SubscriberExists",
    "SubscriberNotFound",
    "Unauthorized",
]


class EventHubError(Exception):
    """The root of every error that the hub raises on purpose. All of them can be pickled, and so cross processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[EventHubError], args: tuple[Any, ...], state: dict[str, Any]) -> EventHubError:
    """An error as it was, whatever its constructor wants to know."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InvalidEventError(EventHubError, ValueError):
    """An event, or a part of it, is not acceptable; nothing was stored."""


class InvalidPayloadError(InvalidEventError):
    """The payload is not strict JSON; nothing was stored."""


class PayloadTooLargeError(InvalidPayloadError):
    """The payload is larger than the limit; nothing was stored."""


class InvalidPatternError(InvalidEventError):
    """A subscription pattern is empty, too long or has too many wildcards."""


class IdempotencyConflict(EventHubError):
    """The idempotency key belongs to another event already; nothing was stored."""


class EventNotFound(EventHubError, LookupError):
    """There is no event with that id."""


class NotDeadError(EventHubError):
    """The event is not in the dead letter queue, so it cannot be retried from there."""


class ClaimLost(EventHubError):
    """The claim is no longer current: the report was refused and changed nothing."""


class AlreadyReported(EventHubError):
    """The claim was settled by the opposite report: the first one stands and this one changed nothing."""


class NotProcessing(EventHubError):
    """Nobody is working on the event, so it cannot be taken away from anyone; nothing changed."""


class HandlerExistsError(EventHubError, ValueError):
    """A handler with this id is registered already."""


class InvalidKeyError(EventHubError, ValueError):
    """An API key cannot have this name, scope or expiry; nothing was stored."""


class KeyNotFound(EventHubError, LookupError):
    """There is no API key with that id."""


class InvalidSubscriberError(EventHubError, ValueError):
    """A subscriber cannot be like this; ``field`` is the part that is wrong. Nothing was stored."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class SubscriberNotFound(EventHubError, LookupError):
    """There is no subscriber with that id or name."""


class SubscriberExists(EventHubError):
    """Another subscriber has this name; nothing was stored."""


class SubscriberChanged(EventHubError):
    """The subscriber was changed by somebody else meanwhile; nothing was stored."""


class BlockedDestination(EventHubError, ValueError):
    """Webhooks must not be sent to this address."""


class EventBusShutdownError(EventHubError):
    """The bus is shutting down, or has; it takes no more work."""


class NestedPublishError(EventHubError):
    """A handler publishes and waits for an event that could not end before it, or too many handlers wait for others."""


class LakeMismatch(EventHubError):
    """The lake is not the one that the database was copied to, or one of them is an older state; nothing was copied."""


class SparkLost(EventHubError):
    """The Java process of Spark has ended; what it had committed to the lake stands."""


class SettingsError(EventHubError, ValueError):
    """A setting has a value that cannot work."""


class ServerUnavailable(EventHubError):
    """A hub cannot be reached over HTTP, or cannot answer right now; ``retry_after`` is what it asked for."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RemoteError(EventHubError):
    """A hub refused a request: ``status`` and ``type`` are those of the problem it answered with."""

    def __init__(self, detail: str, *, status: int, type: str = "about:blank") -> None:  # noqa: A002
        super().__init__(f"{detail} ({status} {type})")
        self.detail = detail
        self.status = status
        self.type = type


class Unauthorized(RemoteError):
    """The hub wants an API key, or another one than it got."""


class Forbidden(RemoteError):
    """The API key may not do this."""


class StoreError(EventHubError):
    """The database could not do what was asked."""


class StoreUnavailable(StoreError):
    """The database cannot be reached right now; nothing was acknowledged."""


class StoreBusy(StoreError):
    """Another process held the database's write lock for too long."""


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """The database's disk has no room."""


class StoreClosed(StoreError):
    """The store was closed by this process."""


class SchemaMismatch(StoreError):
    """The tables in the database are of a version this program does not know."""
