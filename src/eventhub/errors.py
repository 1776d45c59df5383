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
├── HandlerExistsError (ValueError)    a handler id is taken
├── EventBusShutdownError              the bus was told to stop
├── SettingsError (ValueError)         a setting has a value that cannot work
└── StoreError                         the database
    ├── StoreUnavailable               it cannot be reached right now
    ├── StoreBusy                      another process holds its lock for too long
    ├── StoreReadOnly                  it cannot be written
    ├── StoreFull                      its disk has no room
    ├── StoreClosed                    it was closed by this process
    └── SchemaMismatch                 its tables are of another version
"""

from __future__ import annotations

__all__ = [
    "ClaimLost",
    "EventBusShutdownError",
    "EventHubError",
    "EventNotFound",
    "HandlerExistsError",
    "IdempotencyConflict",
    "InvalidEventError",
    "InvalidPatternError",
    "InvalidPayloadError",
    "NotDeadError",
    "PayloadTooLargeError",
    "SchemaMismatch",
    "SettingsError",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
]


class EventHubError(Exception):
    """The root of every error that the hub raises on purpose."""


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


class HandlerExistsError(EventHubError, ValueError):
    """A handler with this id is registered already."""


class EventBusShutdownError(EventHubError):
    """The bus is shutting down, or has; it takes no more work."""


class SettingsError(EventHubError, ValueError):
    """A setting has a value that cannot work."""


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
