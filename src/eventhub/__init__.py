"""Event Hub: one durable event system, from a single file to a lakehouse."""

from importlib import import_module
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
    extra = {"Client": "client", "Worker": "client", "Hub": "server"}.get(name)
    if extra is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("eventhub.client" if extra == "client" else "eventhub.hub"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "eventhub":
            raise
        raise ImportError(
            f"eventhub.{name} needs the package {error.name}: pip install 'eventhub[{extra}]'."
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
