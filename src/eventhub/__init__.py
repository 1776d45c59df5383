"""Event Hub: one durable event system, from a single file to a lakehouse."""

from typing import TYPE_CHECKING, Any

from eventhub._version import __version__
from eventhub.bus import DLQInspector, EventBus
from eventhub.core.events import DeadEvent, Event, QueuedEvent, Status
from eventhub.core.outcomes import PermanentError, Success, TransientError
from eventhub.core.retry import RetryPolicy
from eventhub.core.subscribers import Subscriber
from eventhub.queue import EventManager, EventQueue, IdempotencyGuard
from eventhub.store import Store, open_store

if TYPE_CHECKING:
    from eventhub.client import Client, Worker
    from eventhub.hub import Hub

__all__ = [
    "Client",
    "DLQInspector",
    "DeadEvent",
    "Event",
    "EventBus",
    "EventManager",
    "EventQueue",
    "Hub",
    "IdempotencyGuard",
    "PermanentError",
    "QueuedEvent",
    "RetryPolicy",
    "Status",
    "Store",
    "Subscriber",
    "Success",
    "TransientError",
    "Worker",
    "__version__",
    "open_store",
]


def __getattr__(name: str) -> Any:
    # Most programs never speak HTTP: they need not import what does.
    if name in ("Client", "Worker"):
        from eventhub import client

        return getattr(client, name)
    if name == "Hub":
        from eventhub.hub import Hub

        return Hub
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
