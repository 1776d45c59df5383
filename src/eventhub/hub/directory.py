"""Who wants which events: the subscribers of one moment, compiled so that an event finds its own quickly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from eventhub.core.filters import Filter
from eventhub.core.ordering import key_path, ordering_key_of
from eventhub.core.subscribers import Subscriber
from eventhub.errors import InvalidSubscriberError, SettingsError
from eventhub.store.messages import Marker, Placement, Plan, SubscriberRow, routes_of

__all__ = ["Directory"]

MOST_TYPES: Final = 10_000
"""Event types whose subscribers are remembered."""
_decode = msgspec.json.Decoder().decode


class Wish:
    """What one subscriber wants, and what its messages start with."""

    __slots__ = ("filter", "key", "max_attempts", "needs_metadata", "needs_payload", "number", "parks", "pattern")

    def __init__(self, number: int, subscriber: Subscriber) -> None:
        self.number = number
        self.pattern = subscriber.pattern
        self.filter = Filter.parse(subscriber.filter) if subscriber.filter else None
        self.key = subscriber.ordering_key
        self.parks = subscriber.on_dead == "park"
        self.max_attempts = subscriber.max_attempts
        path = None if self.key is None else key_path(self.key)
        root = None if path is None else path.root
        self.needs_payload = root == "payload" or (self.filter is not None and self.filter.needs_payload)
        self.needs_metadata = root == "metadata" or (self.filter is not None and self.filter.needs_metadata)


class Directory:
    """The subscribers as of one version; paused and disabled ones get their messages, too, which wait for them."""

    def __init__(self, version: int, rows: Iterable[SubscriberRow]) -> None:
        self.version = version
        self._wishes: dict[int, Wish] = {}
        for row in rows:
            try:
                self._wishes[row.id] = Wish(row.id, Subscriber.parse(row.document))
            except InvalidSubscriberError as error:  # to go on without it would lose what it wants
                raise SettingsError(
                    f"The subscriber {row.name!r} ({row.id}) is configured in a way that this release does not know, "
                    f"so no events are handed out here: {error} Upgrade this process, or change the subscriber."
                ) from None
        self._by_type: dict[str, list[Wish]] = {}
        self._plan: Plan | None = None

    def plan(self) -> Plan:
        """How the store hands events out to them."""
        if self._plan is None:
            self._plan = Plan(
                self.version,
                frozenset(route for number in self._wishes for route in routes_of(number)),
                any(wish.needs_payload for wish in self._wishes.values()),
                self.place,
            )
        return self._plan

    def place(self, marker: Marker) -> list[Placement]:
        """The messages of one event. Who is named gets it whatever it subscribed to."""
        if marker.targets is None:
            wishes = self._wanting(marker.type)
        else:
            wishes = [self._wishes[number] for number in marker.targets if number in self._wishes]
        if not wishes:
            return []
        payload: Any = None
        metadata: dict[str, str] | None = None
        if marker.payload is not None and any(wish.needs_payload for wish in wishes):
            payload = _decode(marker.payload)
        if marker.metadata is not None and any(wish.needs_metadata for wish in wishes):
            metadata = _decode(marker.metadata)
        placements = []
        for wish in wishes:
            chosen = marker.targets is not None or wish.filter is None
            if not (chosen or wish.filter.matches(marker.type, payload, metadata, marker.ordering_key)):  # type: ignore[union-attr]
                continue
            key = ordering_key_of(wish.key, marker.ordering_key, payload, metadata, marker.type)
            placements.append(Placement(marker.event_id, wish.number, key, wish.parks, wish.max_attempts))
        return placements

    def _wanting(self, event_type: str) -> list[Wish]:
        known = self._by_type.get(event_type)
        if known is None:
            if len(self._by_type) >= MOST_TYPES:
                self._by_type.clear()
            known = [wish for wish in self._wishes.values() if wish.pattern.matches(event_type)]
            self._by_type[event_type] = known
        return known
