"""The routes, one module a subject; ``OPERATIONS`` is all of them in the order of the documentation."""

from eventhub.http.operations import Operation
from eventhub.http.routes import events, health, keys, operating, replaying, work

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *events.OPERATIONS,
    *replaying.OPERATIONS,
    *work.OPERATIONS,
    *operating.OPERATIONS,
    *keys.OPERATIONS,
    *health.OPERATIONS,
)
