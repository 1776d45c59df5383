"""What people ask about messages and dead letters, and what they decide about them.

A message is a delivery to a subscriber. Its id is the delivery's, which is also what a dead letter goes by; that of
work is its event's. Whatever voids a claim takes the row away under the same locks as a report does, so that whoever
held it is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from eventhub.core.events import Status
from eventhub.store.messages import (
    Attempt,
    BlockedKey,
    DeadBrief,
    DeadFilter,
    DeadLetter,
    DeadLetterPage,
    Message,
    MessageFilter,
    SubscriberStats,
)
from eventhub.store.values import NewEvent

__all__ = ["BEHIND", "COUNTED", "PORTION", "SAMPLE", "Compose", "HubGauges", "Messaging"]

COUNTED: Final = 100_000
"""Numbers for people are exact up to here."""
BEHIND: Final = 10_000
"""How far those who stand behind a key's head are counted."""
SAMPLE: Final = 1_000
"""From how many attempts of the last hour, the latest, latencies are taken."""
PORTION: Final = 500
"""So many dead letters are retried or purged in one transaction."""
PRUNED: Final = 5_000
"""So many attempts are forgotten in one transaction."""
NO_END: Final = 2**63 - 1
MOVED: Final = "Moved to the dead letter queue by hand."

Compose = Callable[[Sequence[DeadLetter]], Sequence[NewEvent]]
"""The events that tell of these deaths; it must be quick and touch nothing, and may be asked twice."""


class HubGauges(msgspec.Struct, frozen=True, kw_only=True):
    """The hub in numbers that go up and down, each counted up to a hundred thousand."""

    pending: list[tuple[int, int]]
    """Subscribers and how many messages wait for them, counted up to ten thousand: those with the most first."""
    blocked_keys: int
    """Of subscribers and of queues."""
    parked_keys: int
    dead_letters: int
    """All there are, those of work as well."""


class Messaging(ABC):
    """Each opens the store when it is not open yet. Without a ``now`` the database's clock counts."""

    # --------------------------------------------------------------- reading

    @abstractmethod
    async def messages(self, wanted: MessageFilter) -> list[Message]:
        """Messages that fit, newest first: open ones, dead ones, and those that were delivered not too long ago.

        A page costs the same wherever it begins. One that was cancelled is in the log only.
        """

    @abstractmethod
    async def message(self, message_id: int) -> Message | None:
        """One message; None when there is none with that id, or no longer."""

    @abstractmethod
    async def attempts(self, message_id: int) -> list[Attempt]:
        """How the attempts at a message went, the first one first."""

    @abstractmethod
    async def subscriber_stats(self, subscriber: int, *, now: datetime | None = None) -> SubscriberStats:
        """A subscriber in numbers, each counted up to a hundred thousand; latencies are of its latest attempts."""

    @abstractmethod
    async def blocked_keys(self, subscriber: int, *, limit: int = 50, after: str | None = None) -> list[BlockedKey]:
        """Ordering keys that stand still, in the order of their bytes: the first message has failed, or is parked.

        ``after`` goes on behind a key; a page costs the same wherever it begins.
        """

    @abstractmethod
    async def hub_gauges(self, *, most: int = 100) -> HubGauges:
        """The largest backlogs, ``most`` of them; keys that stand still, and the size of the dead letter queue."""

    # ------------------------------------------------------------- operating

    @abstractmethod
    async def retry_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        """Let the first message of a key be tried at once: a parked one from the start, one that waits as it is."""

    @abstractmethod
    async def skip_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        """Let a key go on past its first message, which is a dead letter then, also when it is being sent.

        False when the key has no messages.
        """

    @abstractmethod
    async def unpark_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        """Let a key go on past its dead head; False when the key is not parked."""

    @abstractmethod
    async def retry_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        """Let a message that waits be tried at once, or give a dead one a fresh start; False when it is neither."""

    @abstractmethod
    async def cancel_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        """Take an open message away for good, also when it is being sent; False when it is not open."""

    @abstractmethod
    async def bury_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        """Move an open message to the dead letter queue, also when it is being sent; False when it is not open."""

    # ---------------------------------------------------------- dead letters

    @abstractmethod
    async def dead_letters(self, wanted: DeadFilter) -> DeadLetterPage:
        """Dead letters that fit, the latest death first; the total is counted up to a hundred thousand."""

    @abstractmethod
    async def count_dead(self, wanted: DeadFilter) -> int:
        """How many letters ``retry_dead_where`` would take: those that fit, on all pages.

        Letters of a subscriber that is gone do not count, for there is nobody to retry them for.
        """

    @abstractmethod
    async def dead_briefs(self, wanted: DeadFilter, *, limit: int) -> list[DeadBrief]:
        """Dead letters that fit, in brief, the latest death first; pages do not count."""

    @abstractmethod
    async def dead_letter(self, delivery_id: int) -> DeadLetter | None:
        """The latest dead letter of a message or of work, also one that was retried since."""

    async def retry_dead_where(
        self, wanted: DeadFilter, *, by: str, limit: int | None = None, now: datetime | None = None
    ) -> int:
        """Give those that fit, on all pages, a fresh start, and return how many; at most ``limit``.

        In portions and from the oldest on, so that keys keep their order. What dies meanwhile is left alone.
        """
        retried, after, last = 0, 0, await self._last_letter()
        while limit is None or retried < limit:
            most = PORTION if limit is None else min(PORTION, limit - retried)
            portion = await self._oldest_dead(wanted, after=after, last=last, limit=most, retry=True)
            if not portion:
                break
            after = portion[-1][1]
            retried += len(await self.retry_dead([number for _, number in portion], by=by, now=now))
        return retried

    async def purge_dead_where(self, wanted: DeadFilter) -> int:
        """Delete those that fit, on all pages, and the events that nothing else needs; returns how many.

        Parked ones hold a key and stay, and what dies meanwhile is left alone.
        """
        purged, after, last = 0, 0, await self._last_letter()
        while portion := await self._oldest_dead(wanted, after=after, last=last, limit=PORTION, retry=False):
            after = portion[-1][1]
            purged += await self._purge_letters([letter for letter, _ in portion], retried_before=None)
        return purged

    @abstractmethod
    async def announce_dead(self, compose: Compose, *, limit: int = 100, now: datetime | None = None) -> int:
        """Publish what is to be told of subscribers' dead letters, each once, in one commit; how many they were."""

    async def prune_attempts(self, older_than: timedelta, *, now: datetime | None = None) -> int:
        """Forget how attempts went that are older than that; returns how many."""
        pruned = 0
        while portion := await self._prune_attempts(older_than, PRUNED, now):
            pruned += portion
        return pruned

    # ------------------------------------------------------ for the engines

    @abstractmethod
    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]: ...
    @abstractmethod
    async def _last_letter(self) -> int:
        """The number of the letter that was written last."""

    @abstractmethod
    async def _oldest_dead(
        self, wanted: DeadFilter, *, after: int, last: int, limit: int, retry: bool
    ) -> list[tuple[int, int]]:
        """Letters that fit, as (letter, delivery), by delivery: those behind ``after``, none younger than ``last``."""

    @abstractmethod
    async def _purge_letters(self, letters: Sequence[int], *, retried_before: datetime | None) -> int: ...
    @abstractmethod
    async def _prune_attempts(self, older_than: timedelta, limit: int, now: datetime | None) -> int: ...


def statuses(wanted: MessageFilter) -> list[str]:
    """The statuses that fit."""
    return [str(status) for status in Status] if wanted.status is None else [str(wanted.status)]


def to_gauges(pending: list[tuple[int, int]], standstill: Sequence[int]) -> HubGauges:
    """Keys of subscribers and of queues together."""
    blocked, parked, blocked_work, parked_work, letters = standstill
    return HubGauges(
        pending=pending,
        blocked_keys=blocked + blocked_work,
        parked_keys=parked + parked_work,
        dead_letters=letters,
    )
