"""The subscribers that a dispatcher serves and the dispatchers it shares them with, kept up to date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from eventhub.handling.logs import get_logger
from eventhub.hub.lines import CircuitRules, Line
from eventhub.hub.pace import share_of
from eventhub.hub.subscribers import SubscriberBook
from eventhub.store import Store
from eventhub.store.messages import HUB
from eventhub.store.values import Sighting
from eventhub.store.workers import is_dead, new_worker, retire

__all__ = ["Roster"]

log = get_logger("eventhub.hub")

LOOK_EVERY: Final = 0.05
"""Seconds between two looks whether any subscriber has changed."""
READ_EVERY: Final = 30.0
"""Seconds after which they are read anyway: secrets end by the clock."""
SEEN_EVERY: Final = 5.0
DOUBT_EVERY: Final = 0.5
"""Seconds between two looks whether what was lost with an answer can be taken back."""
GONE_AFTER: Final = timedelta(seconds=15)
DISPATCHING: Final = "DISPATCHING"
LEFT: Final = "LEFT"


class Roster:
    """One dispatcher's lines, one for each subscriber."""

    def __init__(self, store: Store, book: SubscriberBook, rules: CircuitRules) -> None:
        self.worker = new_worker()
        """The name under which to claim."""
        self._former: dict[str, frozenset[asyncio.Task[None]]] = {}
        self.lines: dict[int, Line] = {}
        self._store, self._book, self._rules = store, book, rules
        self._changes: int | None = None
        self._workers: list[str] = [self.worker]
        self._look_at = self._read_at = self._see_at = 0.0
        self._has_left = False

    async def refresh(self) -> None:
        """Follow what has changed; most often that is one small question, or none."""
        now = time.monotonic()
        changed = False
        if now >= self._see_at:
            changed = await self._meet()
            self._see_at = now + (DOUBT_EVERY if self._former else SEEN_EVERY)
        if now >= self._look_at or changed:
            self._look_at = now + LOOK_EVERY
            if changed or now >= self._read_at or await self._store.subscriber_changes() != self._changes:
                self._read_at = now + READ_EVERY
                await self._read()

    async def _meet(self) -> bool:
        """Be seen by the other dispatchers and see them; whether there are others than before.

        What one held that has died on this machine need not wait for its lease, nor what was lost with an answer.
        """
        over = [name for name, tasks in self._former.items() if all(task.done() for task in tasks)]
        for name in over:
            retire(name)
        recovered = await self._store.recover(HUB)
        if recovered.total:
            log.warning("recovered", messages=recovered.abandoned, worker_lost=list(recovered.buried))
        await self._store.see_workers(
            [Sighting(HUB, self.worker, DISPATCHING), *(Sighting(HUB, name, LEFT) for name in over)]
        )
        for name in over:
            del self._former[name]
        seen = await self._store.workers(HUB, limit=1000)
        live = sorted(
            worker.name
            for worker in seen
            if worker.last_action == DISPATCHING
            and worker.silent is not None
            and worker.silent < GONE_AFTER
            and not is_dead(worker.name)
        )
        before, self._workers = self._workers, live
        return before != live

    async def _read(self) -> None:
        self._changes = await self._store.subscriber_changes()  # first: rows that are newer still will be read again
        _, rows = await self._store.subscribers()
        now = await self._store.now()
        lines: dict[int, Line] = {}
        for row in rows:
            ready = self._book.ready(row, now)
            if ready is None:
                continue
            most = share_of(ready.subscriber.max_in_flight, self.worker, self._workers, row.id)
            resting = _until(row.circuit_until, now)
            line = self.lines.get(row.id)
            if line is None:
                line = Line(row, ready, most=most, resting=resting, rules=self._rules)
            else:
                line.update(row, ready, most=most, resting=resting)
            lines[row.id] = line
        self.lines = lines

    async def trip(self, line: Line) -> bool:
        """Let everybody leave this subscriber alone for a while."""
        try:
            return await self._store.open_circuit(line.row.id, self._rules.rest_after(line.row.circuit_opens))
        finally:
            self._look_at = self._read_at = 0.0  # the line is as it was until it is read again

    async def probe(self) -> None:
        """Where the rest is over, and nobody else does, try one message."""
        due = {number: line for number, line in self.lines.items() if line.may_probe}
        rests = {number: self._rules.rest_after(line.row.circuit_opens) for number, line in due.items()}
        taken = await self._store.take_probes(rests)
        for number, line in due.items():
            line.rested(rests[number])
            line.probing = number in taken

    def doubt(self, under_way: Iterable[asyncio.Task[None]]) -> None:
        """The answer to a claim was lost: it may have been made, and nobody knows of what.

        So the next claims have another name. When all that is known to be held under this one has ended, it is no
        longer alive, and what it still holds is taken back like that of the dead.
        """
        self._former[self.worker] = frozenset(under_way)
        self.worker = new_worker()
        self._see_at = 0.0

    def join(self) -> None:
        """Begin, perhaps anew: a name that has left is not used again, for it counts as dead."""
        if self._has_left:
            self.worker = new_worker()
            self._has_left = False
        self._see_at = 0.0

    async def leave(self) -> None:
        """The others need not wait for the silence to tell them, and what is still held may be taken at once."""
        self._has_left = True
        names = [self.worker, *self._former]
        try:
            await self._store.see_workers([Sighting(HUB, name, LEFT) for name in names])
        finally:
            for name in names:
                retire(name)


def _until(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max((moment - now).total_seconds(), 0.0)
