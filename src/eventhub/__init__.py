"""Event Hub: one durable event system, from a single file to a lakehouse."""

from eventhub._version import __version__
from eventhub.bus import DLQInspector, EventBus
from eventhub.core.events import DeadEvent, Event, QueuedEvent, Status
from eventhub.core.outcomes import PermanentError, Success, TransientError
from eventhub.core.retry import RetryPolicy
from eventhub.queue import EventManager, EventQueue, IdempotencyGuard
from eventhub.store import Store, open_store

__all__ = [
    "DLQInspector",
    "DeadEvent",
    "Event",
    "EventBus",
    "EventManager",
    "EventQueue",
    "IdempotencyGuard",
    "PermanentError",
    "QueuedEvent",
    "RetryPolicy",
    "Status",
    "Store",
    "Success",
    "TransientError",
    "__version__",
    "open_store",
]
