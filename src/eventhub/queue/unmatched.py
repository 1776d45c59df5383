"""An event that no handler here wants: completed if told so, else left for others, asked for ever rarer."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Final, Literal

from eventhub.core.events import QueuedEvent
from eventhub.core.lifecycle import Complete, Outcome, Release
from eventhub.handling.logs import get_logger

__all__ = ["OnUnmatched", "Unmatched"]

log = get_logger("eventhub.queue")

OnUnmatched = Literal["retry", "complete"]

FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
REMEMBERED: Final = 10_000


class Unmatched:
    """The rule of one manager; it remembers how often it saw an event, so that it does not spin on it."""

    def __init__(self, rule: OnUnmatched) -> None:
        self._rule = rule
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._told: set[str] = set()

    def outcome(self, event: QueuedEvent) -> Outcome:
        if self._rule == "complete":
            return Complete(0)
        if event.type not in self._told and len(self._told) < REMEMBERED:
            self._told.add(event.type)
            log.warning("no handler", event_type=event.type, event_id=event.id, queue=event.queue)
        seen = self._seen.pop(event.id, 0)
        self._seen[event.id] = seen + 1
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return Release(timedelta(seconds=min(FIRST_WAIT * 2 ** min(seen, 10), LONGEST_WAIT)))
