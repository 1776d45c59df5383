"""What the parts of one bus share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from eventhub.bus.counters import TypeCounters
from eventhub.bus.flights import Flights
from eventhub.bus.settings import Tuning
from eventhub.bus.subscriptions import Subscriptions
from eventhub.bus.waiting import Waited, Waiting
from eventhub.store.contract import Store

__all__ = ["Parts"]


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The store, who this bus is in it, and what it has in memory."""

    store: Store
    queue: str
    worker: str
    tuning: Tuning
    now: Callable[[], datetime | None]
    """The time for the store's calls: None means that the database's clock decides."""
    subscriptions: Subscriptions
    flights: Flights
    waiting: Waiting
    counters: TypeCounters

    def has_handlers(self, waited: Waited) -> bool:
        """Whether the handlers that a publisher waits for are all here."""
        return self.subscriptions.matching(waited.type, waited.required) is not None
