"""Keeping house: due retries become ready, abandoned claims are taken back, the dead are announced, the old goes.

Any number of janitors may run; each step is a guarded statement, so everything is looked after once.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Final

import msgspec

from eventhub.handling.logs import get_logger
from eventhub.hub.looping import Loop
from eventhub.hub.notices import Notices
from eventhub.store import Store

__all__ = ["Janitor", "Keeping"]

log = get_logger("eventhub.hub")

LONGEST_REST: Final = 1.0
SHORTEST_REST: Final = 0.05
CLEAN_EVERY: Final = 3600.0


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept; None means for ever."""

    workers: timedelta = timedelta(days=30)
    """Workers that are not seen any more."""
    attempts: timedelta | None = timedelta(days=30)
    """The stories of attempts at messages."""
    dead: timedelta | None = None
    """Dead letters that nobody has retried."""
    keys: timedelta | None = timedelta(days=7)
    """Idempotency keys, after their event has ended."""
    audit: timedelta | None = timedelta(days=365)
    """Rows of the audit log."""


class Janitor(Loop):
    """Tends a store until it is stopped."""

    name = "janitor"

    def __init__(
        self,
        store: Store,
        notices: Notices,
        keeping: Keeping = Keeping(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(store)
        self._notices, self._keeping = notices, keeping
        self._clean_at = 0.0

    async def work(self) -> float:
        tended = await self._store.tend()
        if tended.buried:
            log.warning("workers_lost_for_good", deliveries=list(tended.buried))
        announced = await self._notices.announce_dead()
        if monotonic() >= self._clean_at:  # last: whatever goes wrong with it, the rest is done
            self._clean_at = monotonic() + CLEAN_EVERY
            await self._clean()
        if tended.total or announced:
            return SHORTEST_REST
        due = await self._store.next_due()
        return LONGEST_REST if due is None else min(max(due, SHORTEST_REST), LONGEST_REST)

    async def _clean(self) -> None:
        keeping = self._keeping
        gone = {"workers": await self._store.forget_workers(unseen=keeping.workers)}
        if keeping.attempts is not None:
            gone["attempts"] = await self._store.prune_attempts(older_than=keeping.attempts)
        if keeping.dead is not None:
            gone["dead_letters"] = await self._store.purge_dead(older_than=keeping.dead)
        if keeping.keys is not None:
            gone["idempotency_keys"] = await self._store.free_keys(older_than=keeping.keys)
        if keeping.audit is not None:
            gone["audit"] = await self._store.prune_audit(older_than=keeping.audit)
        for subscriber in await self._store.ownerless():
            gone["messages"] = gone.get("messages", 0) + await self._store.cancel_messages(subscriber, by=self.name)
        if any(gone.values()):
            log.info("old_things_gone", **gone)
