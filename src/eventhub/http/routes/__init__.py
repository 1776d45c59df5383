"""The routes, one module a subject; ``OPERATIONS`` is all of them in the order of the documentation."""

from eventhub.http.operations import Operation
from eventhub.http.routes import (
    dlq,
    events,
    health,
    keys,
    messages,
    operating,
    replaying,
    subscriber_keys,
    subscribers,
    work,
)

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *events.OPERATIONS,
    *replaying.OPERATIONS,
    *work.OPERATIONS,
    *operating.OPERATIONS,
    *subscribers.OPERATIONS,
    *subscriber_keys.OPERATIONS,
    *messages.OPERATIONS,
    *dlq.OPERATIONS,
    *keys.OPERATIONS,
    *health.OPERATIONS,
)
