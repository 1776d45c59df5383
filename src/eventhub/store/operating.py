"""What can be done to a store besides the work itself: dead letters, results and guards, workers seen, API keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from eventhub.errors import StoreError
from eventhub.store.claims import Held
from eventhub.store.incarnations import Incarnation, Restored
from eventhub.store.messaging import PORTION
from eventhub.store.values import ApiKey, Sighting

__all__ = ["Operating", "key_exists", "last_sightings"]


class Operating(ABC):
    """The operations; each opens the store when it is not open yet. Without a ``now`` the database's clock counts."""

    # ---------------------------------------------------------- incarnations

    @abstractmethod
    async def incarnation(self) -> Incarnation:
        """Which incarnation of itself the database is now."""

    @abstractmethod
    async def begin_incarnation(self) -> Restored:
        """Say that the database was restored from a backup: a new incarnation begins, whatever it looks like.

        A file must not be open anywhere, here neither: whoever has it open goes on with what he remembers.
        """

    # ---------------------------------------------------------- dead letters

    @abstractmethod
    async def retry_dead(self, ids: Sequence[int], *, by: str, now: datetime | None = None) -> set[int]:
        """Give dead deliveries a fresh start: counters at zero, due now; returns the ids that were dead.

        A message whose subscriber is gone stays dead.
        """

    async def purge_dead(
        self, *, older_than: timedelta, by: str = "dead_at", queue: str | None = None, now: datetime | None = None
    ) -> int:
        """Delete dead letters, and their events, of that age or older; returns how many. Parked ones stay.

        Letters that were retried go with them, uncounted, so long after they were.
        """
        before = (await self.now() if now is None else now) - older_than
        purged = after = 0
        while letters := await self._old_letters(before, by=by, queue=queue, after=after, limit=PORTION):
            after = letters[-1]
            purged += await self._purge_letters(letters, retried_before=before)
        return purged

    @abstractmethod
    async def unpark(self, queue: str, ordering_key: str, *, by: str, now: datetime | None = None) -> bool:
        """Let a key go on past its dead head; False when the key is not parked."""

    @abstractmethod
    async def reset(self, event_id: int, *, reason: str, now: datetime | None = None) -> bool:
        """Make a delivery that is being worked on ready at once; False when it is not being worked on."""

    # ---------------------------------------------------- results and guards

    @abstractmethod
    async def record_results(
        self, held: Held, results: Sequence[tuple[str, str, str | None]], *, now: datetime | None = None
    ) -> bool:
        """Remember handlers' results (handler id, kind, message) of a claim; False when the claim is lost."""

    @abstractmethod
    async def guard(self, event_id: int, step: str, *, now: datetime | None = None) -> bool:
        """Mark a step of an event as done; True when it was not marked before."""

    # ---------------------------------------------------------- workers seen

    @abstractmethod
    async def see_workers(self, sightings: Sequence[Sighting], *, now: datetime | None = None) -> None:
        """Note that workers were seen and what they did; of several sightings of one worker the last counts."""

    @abstractmethod
    async def forget_workers(self, *, unseen: timedelta, now: datetime | None = None) -> int:
        """Forget who was not seen for longer than that and holds no claim; returns how many."""

    # -------------------------------------------------------------- API keys

    @abstractmethod
    async def add_key(self, key: ApiKey) -> None:
        """Keep a new key; raises StoreError when its id is taken."""

    @abstractmethod
    async def revoke_key(self, key_id: str, now: datetime | None = None) -> bool:
        """End a key for good; False when there is none with that id or it was revoked before."""

    @abstractmethod
    async def expire_key(self, key_id: str, at: datetime) -> bool:
        """Let a key end at a time, if it would not end before; False when there is none, or it was revoked."""

    @abstractmethod
    async def touch_keys(self, uses: Mapping[str, datetime]) -> None:
        """Note when keys were used last, by id; unknown ones do not matter, and no time of use moves backwards."""

    @abstractmethod
    async def end_session(self, session: str, *, ends: datetime, forget_before: datetime) -> None:
        """Remember that a session ended before its time, and forget those whose time was over before that moment."""

    # ------------------------------------------------------ for the engines

    @abstractmethod
    async def now(self) -> datetime: ...
    @abstractmethod
    async def _old_letters(self, before: datetime, *, by: str, queue: str | None, after: int, limit: int) -> list[int]:
        """The numbers of letters from before that time, those behind ``after``, in their order; no parked ones."""

    @abstractmethod
    async def _purge_letters(self, letters: Sequence[int], *, retried_before: datetime | None) -> int:
        """Delete those of these that are open and not parked, and those retried before; how many were open."""


def key_exists(key: ApiKey) -> StoreError:
    return StoreError(f"There is an API key with the id {key.id} already; make another one.")


def last_sightings(sightings: Iterable[Sighting]) -> list[Sighting]:
    """The last sighting of each worker, in an order that is the same for all who write."""
    last = {(sighting.queue, sighting.worker): sighting for sighting in sightings}
    return [last[each] for each in sorted(last)]
