"""The durable ground: one contract, two engines. ``open_store(url)`` gives the one the URL names."""

from eventhub.store.contract import Store
from eventhub.store.opening import open_store

__all__ = ["Store", "open_store"]
