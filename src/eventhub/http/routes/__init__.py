"""The routes, one module a subject; ``OPERATIONS`` is all of the interface in the order of the documentation."""

from eventhub.http.operations import Operation
from eventhub.http.routes import (
    audit,
    dlq,
    events,
    health,
    history,
    keys,
    messages,
    operating,
    pages,
    replaying,
    session,
    subscriber_keys,
    subscribers,
    watching,
    work,
)

__all__ = ["OPERATIONS", "PAGES"]

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
    *audit.OPERATIONS,
    *watching.OPERATIONS,
    *history.OPERATIONS,
    *session.OPERATIONS,
    *health.OPERATIONS,
)
PAGES: tuple[Operation, ...] = pages.PAGES
