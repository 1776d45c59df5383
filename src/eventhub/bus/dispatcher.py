"""The loop that finds work in the store: retries that are due, recovered events, and what others published.

    ┌▶ take a mark ─▶ tend (due retries, ended leases) ─▶ list ready rows ─▶ claim those that match ─▶ wait ─┐
    └────────────────────────────── woken, or the poll interval is over ◀────────────────────────────────────┘

Rows that nobody here wants stay untouched, and so do the retries of another bus that is alive. They are not read
again and again either: a cursor follows what was seen, and going back to the start, for rows that became ready
behind it, takes a small share of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Final

from eventhub.bus.flights import Flight
from eventhub.bus.nesting import calls_around
from eventhub.bus.parts import Parts
from eventhub.bus.waiting import unwanted
from eventhub.core.lifecycle import State
from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger
from eventhub.store.buses import Names, ReadyEvent

__all__ = ["Dispatcher"]

log = get_logger("eventhub.bus")

PAGE: Final = 500
TEND_EVERY: Final = 0.1
RESCAN_SHARE: Final = 20
"""A scan from the start that spent t seconds reading is not repeated before this many times t."""
MIN_WAIT: Final = 0.005
"""Seconds between two rounds that nobody asked for, whatever the store says is due."""


class Dispatcher:
    """Claims ready events of one queue for one bus and hands them on."""

    def __init__(self, parts: Parts, fly: Callable[[Flight], Coroutine[Any, Any, None]]) -> None:
        self._store, self._queue, self._worker, self._now = parts.store, parts.queue, parts.worker, parts.now
        self._lease, self._poll_interval = parts.tuning.lease, parts.tuning.poll_interval
        self._subscriptions, self._flights, self._waiting = parts.subscriptions, parts.flights, parts.waiting
        self._fly = fly
        self._flights.on_free = self._slot_freed
        self._has_handlers = parts.has_handlers
        self._cursor = 0
        self._owners: dict[str, bool] = {}
        self._owners_at = 0.0
        self._rescan_at = 0.0
        self._rescan_owed = False
        self._tend_at = 0.0
        self._follow_at = 0.0
        self._draining = False
        self._stopped = False

    def wake(self) -> None:
        """There may be work: look now."""
        self._store.wakeups.wake(self._queue)

    def subscriptions_changed(self) -> None:
        """What was passed over may be wanted now."""
        self._rescan_at = 0.0
        self.wake()

    def _slot_freed(self) -> None:
        if self._flights.crowded:
            self.wake()

    def due_in(self, delay: timedelta) -> None:
        """An event of ours is due after this wait."""
        self._tend_at = min(self._tend_at, time.monotonic() + delay.total_seconds())
        self.wake()

    def drain(self) -> None:
        """From now on, claim only events whose publisher is waiting."""
        self._draining = True
        self.wake()

    def stop(self) -> None:
        """End the loop after the current round: no claim is left between the store and its handlers."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Until it is stopped; the database may go away and come back meanwhile."""
        backoff = Backoff()
        while not self._stopped:
            mark = self._store.wakeups.mark(self._queue)  # before the look, so that no wake-up is lost
            try:
                await self._round()
                await self._rest(mark)
            except StoreClosed as error:
                log.warning("dispatcher_stopped", queue=self._queue, error=str(error))
                self._waiting.close(_store_closed)
                return
            except Exception as error:  # noqa: BLE001 - whatever one round met, the next one tries again
                pause = backoff.pause()
                write = log.warning if isinstance(error, StoreError) else log.exception
                write("dispatch_failed", queue=self._queue, retry_in_ms=round(pause * 1000), error=str(error))
                await asyncio.sleep(pause)
            else:
                backoff.reset()

    async def _rest(self, mark: int) -> None:
        timeout = self._poll_interval
        if self._rescan_owed:
            timeout = min(timeout, max(self._rescan_at - time.monotonic(), 0))
        started = time.monotonic()
        if self._now() is None:
            woken = await self._store.wait(self._queue, since=mark, timeout=timeout)
        else:  # what the database's clock calls due means nothing to an injected one
            woken = await self._store.wakeups.wait(self._queue, since=mark, timeout=timeout)
        if not woken:
            self._tend_at = 0.0
            await asyncio.sleep(max(0.0, MIN_WAIT - (time.monotonic() - started)))

    async def _round(self) -> None:
        if self._now() is not None or time.monotonic() >= self._tend_at:
            self._tend_at = time.monotonic() + TEND_EVERY
            tended = await self._store.tend(now=self._now())
            if tended.buried:
                log.error("workers_lost", queue=self._queue, event_ids=list(tended.buried))
                self._follow_at = 0.0
        await self._claim_nested()
        if self._draining:
            await self._claim(
                {each.id: each.required for each in self._waiting.events() if each.id not in self._flights}
            )
        else:
            await self._scan()
        await self._follow()

    # ------------------------------------------------------------------ find

    async def _scan(self) -> None:
        rescan = time.monotonic() >= self._rescan_at
        self._rescan_owed = not rescan
        if rescan:
            self._cursor = 0
        seen_all, reading = False, 0.0
        while self._flights.free and not seen_all and not self._stopped:
            started = time.monotonic()
            page = await self._store.ready(self._queue, after_id=self._cursor, limit=PAGE)
            reading += time.monotonic() - started
            await self._learn_owners(page)
            await self._claim(self._choose(page))
            seen_all = len(page) < PAGE and (not page or self._cursor >= page[-1].id)
        self._flights.crowded = not seen_all
        if rescan:
            self._rescan_at = time.monotonic() + reading * RESCAN_SHARE

    def _choose(self, page: Sequence[ReadyEvent]) -> dict[int, Names | None]:
        """The rows that this bus may handle, as many as there are slots; the cursor moves past all it saw."""
        wanted: dict[int, Names | None] = {}
        for event in page:
            if len(wanted) >= self._flights.free:
                break
            self._cursor = event.id
            if self._subscriptions.matching(event.type, event.handlers) is not None and not self._is_elsewhere(event):
                wanted[event.id] = event.handlers
        return wanted

    def _is_elsewhere(self, event: ReadyEvent) -> bool:
        """Whether it belongs to another bus that is alive. What nobody has begun is for whoever can do it."""
        return event.claimed_before and self._owners.get(event.owner or "", False)

    async def _learn_owners(self, page: Sequence[ReadyEvent]) -> None:
        """Whether the other buses that these events belong to are alive."""
        others = {event.owner for event in page if event.owner and event.claimed_before} - {self._worker}
        known = self._owners.keys()
        if not others or (others <= known and time.monotonic() < self._owners_at):
            return
        buses = await self._store.buses(self._queue, now=self._now())
        alive = {bus.worker for bus in buses if bus.alive} - {self._worker}
        self._owners = {owner: owner in alive for owner in others | alive}
        self._owners_at = time.monotonic() + self._poll_interval

    # ----------------------------------------------------------------- claim

    async def _claim_nested(self) -> None:
        """What handlers of this bus wait for comes first and needs no slot: it runs in the place of those handlers."""
        events = self._waiting.events()
        nested = {each.id: each for each in events if any(calls_around(each.outer, self._worker))}
        apart = [event_id for event_id in nested if event_id not in self._flights]
        if not apart:
            return
        standing = await self._store.current(apart)
        ready = [event_id for event_id, now in standing.items() if now.state is State.READY]
        if ready:
            for claim in await self._store.claim_ids(ready, worker=self._worker, lease=self._lease, now=self._now()):
                waited = nested[claim.held.id]
                self._flights.launch(claim, self._fly, waited.required, waited.outer, in_place=True)

    async def _claim(self, required: dict[int, Names | None]) -> None:
        """Claim events, each with the handlers that it needs, as many as there are slots."""
        wanted = list(required)[: self._flights.free]
        if not wanted:
            return
        self._flights.reserve(len(wanted))
        unused = len(wanted)
        try:
            claims = await self._store.claim_ids(wanted, worker=self._worker, lease=self._lease, now=self._now())
            for claim in claims:
                number = claim.held.id
                outer = self._waiting.outer_of(number)
                self._flights.launch(claim, self._fly, required[number], outer, in_place=False)
                unused -= 1
        finally:
            self._flights.give_back(unused)

    # ---------------------------------------------------------------- follow

    async def _follow(self) -> None:
        """Tell publishers of events that were settled elsewhere: by another process, or as poison."""
        if time.monotonic() < self._follow_at:
            return
        elsewhere = [waited for waited in self._waiting.events() if waited.id not in self._flights]
        if elsewhere:
            standing = await self._store.current([waited.id for waited in elsewhere])
            for waited in elsewhere:
                if waited.id in self._flights:
                    continue
                if (now := standing.get(waited.id)) is None:
                    self._waiting.settled(waited.id)
                elif now.state is not State.LEASED and not self._has_handlers(waited):
                    self._waiting.fail(waited.id, unwanted)  # it was given back, and a subscription is gone
        self._follow_at = time.monotonic() + self._poll_interval

    def follow_soon(self) -> None:
        """A claim was lost: its publisher follows the store from here on."""
        self._follow_at = 0.0
        self.wake()


def _store_closed(event_id: int) -> StoreClosed:
    return StoreClosed(
        f"The store was closed before event {event_id} was settled; it is processed when a bus starts again. "
        "Shut the bus down before its store."
    )
