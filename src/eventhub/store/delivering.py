"""What the hub asks of a store: subscribers and their circuits, handing events out, and claiming messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from eventhub.core.lifecycle import State
from eventhub.errors import SubscriberExists
from eventhub.store.audit import Act
from eventhub.store.messages import (
    FannedOut,
    Marker,
    MessageClaim,
    Placement,
    Plan,
    SubscriberRow,
    WantedMessages,
    consumer_of,
)
from eventhub.store.values import NewEvent, lane_id

__all__ = ["FIRST_SHARE", "MOST_MESSAGES", "Delivering", "Layout", "chosen", "lanes_in", "name_taken"]

MOST_MESSAGES: Final = 5000
"""One round of the fan-out makes about so many messages, however many subscribers there are."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Payloads that one round of the fan-out reads, about."""
PORTION: Final = 2000
"""Messages that are cancelled in one transaction."""
FIRST_SHARE: Final = 4
"""While messages wait for their first attempt, a subscriber's retries get one place in so many."""


class Delivering(ABC):
    """The operations; each opens the store when it is not open yet. Without a ``now`` the database's clock counts."""

    # ----------------------------------------------------------- subscribers

    @abstractmethod
    async def next_id(self) -> int:
        """An id that nothing else has or will have."""

    @abstractmethod
    async def hub_id(self) -> str:
        """Which hub this is: 32 hexadecimal digits, made with its tables."""

    @abstractmethod
    async def add_subscriber(self, row: SubscriberRow) -> SubscriberRow:
        """Keep a new subscriber under an id from ``next_id``; raises SubscriberExists when its name is taken."""

    @abstractmethod
    async def subscribers(self) -> tuple[int, list[SubscriberRow]]:
        """All subscribers by name, and the number that grows with every change of what any of them wants."""

    @abstractmethod
    async def subscribers_version(self) -> int:
        """That number alone."""

    @abstractmethod
    async def subscriber_changes(self) -> int:
        """A number that grows with these changes and with those of status and circuit."""

    @abstractmethod
    async def subscriber(self, subscriber_id: int) -> SubscriberRow | None:
        """One subscriber; None when there is none with that id."""

    @abstractmethod
    async def change_subscriber(
        self,
        subscriber_id: int,
        *,
        expected_version: int,
        name: str,
        document: str,
        sealed: bytes | None,
        max_attempts: int | None = None,
        act: Act | None = None,
        now: datetime | None = None,
    ) -> SubscriberRow | None:
        """Replace a configuration if it has that version still; None when it has not, or is gone.

        ``act`` is what the audit log says of it.

        With ``max_attempts`` that limit holds for its open messages, too. Raises SubscriberExists when another has the
        name.
        """

    @abstractmethod
    async def set_status(
        self,
        subscriber_id: int,
        status: str,
        *,
        reason: str | None = None,
        expect: frozenset[str] | None = None,
        event: NewEvent | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Let it be active, paused or disabled, and close its circuit; the event is published in the same commit.

        False when it is unknown, is so already, or is none of what was expected; then nothing is published.
        """

    @abstractmethod
    async def remove_subscriber(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int | None:
        """Forget a subscriber and cancel what is open for it; how much that was, or None when it is unknown.

        From the first moment on nothing is made for it; what is open goes in portions.
        """

    @abstractmethod
    async def cancel_messages(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int:
        """Cancel everything that is open for a subscriber, whoever holds it; how much that was."""

    @abstractmethod
    async def ownerless(self) -> list[int]:
        """Subscribers that are gone and have messages all the same, because their removal was cut off."""

    # -------------------------------------------------------------- circuits

    @abstractmethod
    async def open_circuit(self, subscriber_id: int, rest: timedelta, *, now: datetime | None = None) -> bool:
        """Send nothing for a while, in all processes; False when somebody else did so before."""

    @abstractmethod
    async def take_probes(self, rests: Mapping[int, timedelta], *, now: datetime | None = None) -> set[int]:
        """The open circuits that the caller is the one to try now; for each the next may after this rest."""

    @abstractmethod
    async def close_circuit(
        self, subscriber_id: int, *, event: NewEvent | None = None, now: datetime | None = None
    ) -> bool:
        """All is well again; the event is published in the same commit. False when it was closed already."""

    # -------------------------------------------------------------- messages

    @abstractmethod
    async def fan_out(self, plan: Plan, *, limit: int = 500, now: datetime | None = None) -> FannedOut:
        """Turn the oldest markers into messages, each once, in the order of their events; one process at a time."""

    @abstractmethod
    async def fanout_waiting(self, limit: int) -> tuple[int, float | None]:
        """How many markers wait, counted up to ``limit``, and since how many seconds the oldest does."""

    @abstractmethod
    async def claim_messages(
        self,
        wanted: Sequence[WantedMessages],
        *,
        worker: str,
        lease: timedelta,
        limit: int | None = None,
        roll: float = 0.0,
        now: datetime | None = None,
    ) -> list[MessageClaim]:
        """Lease what is ready for these subscribers, for each the oldest, as many as there is room for.

        With a ``limit`` in all, everybody gets a first before anybody gets a second, in the order in which they are
        given. While both wait, retries get a share; ``roll`` in [0, 1) decides about the odd place.
        """


class Layout:
    """Where new messages start: the first of a key that has no head becomes it, the others stand behind."""

    def __init__(self, placements: Sequence[Placement], heads: set[int]) -> None:
        self.lanes: list[int | None] = []
        self.states: list[int] = []
        for placement in placements:
            lane, state = None, State.READY
            if placement.key is not None:
                lane = lane_id(consumer_of(placement.subscriber), placement.key)
                if lane in heads:
                    state = State.BEHIND
                heads.add(lane)
            self.lanes.append(lane)
            self.states.append(state)


def lanes_in(placements: Sequence[Placement]) -> dict[int, tuple[str, str]]:
    """The ordering keys of new messages, by their numbers."""
    return {
        lane_id(consumer_of(placement.subscriber), placement.key): (consumer_of(placement.subscriber), placement.key)
        for placement in placements
        if placement.key is not None
    }


def chosen(markers: Iterable[Marker], plan: Plan) -> tuple[list[Marker], list[Placement], bool]:
    """As many markers, from the first on, as one round may hand out, their messages, and whether there are more.

    What is not needed any more is not asked for.
    """
    handed: list[Marker] = []
    placements: list[Placement] = []
    size = 0
    for marker in markers:
        if len(placements) >= MOST_MESSAGES or size >= MOST_BYTES:
            return handed, placements, True
        handed.append(marker)
        placements += plan.place(marker)
        size += len(marker.payload or "")
    return handed, placements, False


def name_taken(name: str) -> SubscriberExists:
    return SubscriberExists(f"There is a subscriber named {name!r} already; choose another name, or change that one.")
