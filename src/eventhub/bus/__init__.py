"""Handlers in this process: publish and subscribe on a store, with retries and a dead letter queue."""

from eventhub.bus.breaker import BreakerSettings
from eventhub.bus.counters import Counters
from eventhub.bus.event_bus import EventBus
from eventhub.bus.inspector import DLQInspector
from eventhub.bus.settings import Tuning

__all__ = ["BreakerSettings", "Counters", "DLQInspector", "EventBus", "Tuning"]
