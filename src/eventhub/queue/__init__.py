"""Work queues: EventQueue publishes and polls, EventManager runs handlers, IdempotencyGuard marks steps."""

from eventhub.queue.event_manager import EventManager
from eventhub.queue.event_queue import EventQueue
from eventhub.queue.guard import IdempotencyGuard

__all__ = ["EventManager", "EventQueue", "IdempotencyGuard"]
