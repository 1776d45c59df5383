"""What was published and what became of it: each event is stored once, and goes once to everybody who wants it."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from eventhub.store.messages import consumer_of
from eventhub.store.values import Published
from eventhub.testing.simulation.calls import Call, FanOut, Publish, Refused, Reply
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.model import WORK, Row
from eventhub.testing.simulation.setup import Setup
from eventhub.testing.simulation.tracks import Broken, Track

__all__ = ["Arrivals"]


class Arrivals:
    """Events by their payloads, which are unlike one another, and the deliveries that were made of them."""

    def __init__(self, setup: Setup, memory: Memory) -> None:
        self._memory = memory
        self.subscribers = {consumer_of(n): each for n, each in enumerate(setup.subscribers, start=1)}
        self.tracks: dict[int, Track] = {}
        self.lanes: defaultdict[tuple[str, str], list[Track]] = defaultdict(list)
        self.conflicting: set[str] = set()
        """What must be refused, because its key belongs to another."""
        self.events: dict[str, int] = {}
        self._acked: dict[str, int] = {}
        self._latest: dict[str | None, int] = {}
        self._made: set[tuple[int, str]] = set()

    def heard(self, call: Publish, reply: Reply) -> None:
        """The publisher knows: from here on it is a promise."""
        if isinstance(reply, list):
            for event, published in zip(call.events, reply, strict=True):
                assert isinstance(published, Published)  # noqa: S101 - for the types
                self._acked[event.payload] = published.id

    def published(self, call: Publish, reply: Reply) -> None:
        """The store has answered a publisher, who may not hear of it."""
        conflicts = any(event.payload in self.conflicting for event in call.events)
        if isinstance(reply, Refused) != conflicts:
            raise Broken(9, "a key stands for two events" if conflicts else "the same event again was refused")
        if isinstance(reply, Refused):
            return
        for event, published in zip(call.events, reply, strict=True):  # type: ignore[arg-type]
            assert isinstance(published, Published)  # noqa: S101 - for the types
            again = event.payload in self.events
            known = self.events.setdefault(event.payload, published.id)
            if known != published.id or published.duplicate != again:
                raise Broken(9, f"event {event.payload} is {known} and {published.id}")
            stored = self._memory.events.get(published.id)
            if stored is None or stored.new.payload != event.payload:
                raise Broken(1, f"event {event.payload} was acknowledged as {published.id}, which is not there")
            if published.id < self._latest.get(event.ordering_key, 0) and not published.duplicate:
                raise Broken(3, f"event {published.id} is younger than one that was acknowledged before")
            if event.ordering_key is not None:
                self._latest[event.ordering_key] = max(published.id, self._latest.get(event.ordering_key, 0))

    def new_rows(self, call: Call) -> None:
        """Deliveries that were not there before the call."""
        rows = self._memory.model.rows
        if len(self.events) != len(self._memory.events):
            raise Broken(9, f"{len(self.events)} events were published, and {len(self._memory.events)} are there")
        for row in list(islice(rows.values(), len(self.tracks), None)):
            if (row.event, row.consumer) in self._made:
                raise Broken(9, f"event {row.event} has two deliveries to {row.consumer}")
            self._made.add((row.event, row.consumer))
            event = self._memory.events[row.event].new
            if row.consumer != WORK:
                self._wanted(call, row)
            key = event.ordering_key if row.consumer == WORK or self.subscribers[row.consumer].ordering_key else None
            if row.key != key:
                raise Broken(3, f"event {row.event} goes to {row.consumer} by the key {row.key!r}, not {key!r}")
            track = Track(row.id, row.event, row.consumer, key, row.max_attempts, row.due, row.parks)
            self.tracks[row.id] = track
            if key is not None:
                self.lanes[row.consumer, key].append(track)

    def _wanted(self, call: Call, row: Row) -> None:
        pattern, kind = self.subscribers[row.consumer].event_type, self._memory.events[row.event].new.type
        if not isinstance(call, FanOut) or not _wants(pattern, kind):
            raise Broken(2, f"{row.consumer} gets event {row.event}, which it did not subscribe to")

    def end(self) -> None:
        """What was acknowledged has gone to everybody who wants it, and is settled."""
        for payload, event in self._acked.items():
            stored = self._memory.events[event].new
            wanted = [WORK] if stored.work else []
            if stored.broadcast:
                wanted += [who for who, each in self.subscribers.items() if _wants(each.event_type, stored.type)]
            for consumer in wanted:
                if (event, consumer) not in self._made:
                    raise Broken(1, f"{payload} was acknowledged as event {event}, and never went to {consumer}")
            if str(self._memory.status(event)) in ("PENDING", "PROCESSING"):
                raise Broken(1, f"event {event} is {self._memory.status(event)} in the end")


def _wants(pattern: str, event_type: str) -> bool:
    """By the pattern itself, not by the code that matches it: for the few patterns of the setup."""
    if pattern == "*":
        return True
    given, wanted = event_type.split("."), pattern.split(".")
    return len(given) == len(wanted) and all(each in ("*", got) for each, got in zip(wanted, given, strict=True))
