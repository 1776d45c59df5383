"""The events that are in this bus's hands: how many there may be, and their leases, which are kept alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from eventhub.bus.nesting import HandlerCall
from eventhub.errors import StoreClosed
from eventhub.handling.logs import get_logger
from eventhub.store.buses import Names
from eventhub.store.claims import Claim
from eventhub.store.contract import Store

__all__ = ["Flight", "Flights"]

log = get_logger("eventhub.bus")

EXTENSIONS_PER_LEASE: Final = 3


class Flight:
    """One claimed event on its way through its handlers."""

    __slots__ = ("again", "event", "held", "outer", "required", "settling", "task")

    def __init__(
        self, claim: Claim, task: asyncio.Task[Any], required: Names | None, outer: HandlerCall | None
    ) -> None:
        self.held = claim.held
        self.event = claim.event
        self.again = claim.again
        self.required = required
        """The names of the handlers that the event needs; None: whoever wants its type."""
        self.outer = outer
        """The handler that waits for it."""
        self.task = task
        self.settling = False  # once its handlers have ended, nobody cancels it any more


class Flights:
    """The slots of a bus and what is in them. A slot is taken before work is claimed.

    What a handler of the bus waits for needs no slot: it runs in the place of that handler.
    """

    def __init__(self, *, limit: int) -> None:
        self.on_free: Callable[[], None] = _nothing
        self.crowded = False
        """Ready events wait in the store for a slot: new ones go behind them."""
        self._free = limit
        self._by_event: dict[int, Flight] = {}
        self._tasks: dict[asyncio.Task[Any], Flight | None] = {}
        self._in_place: set[asyncio.Task[Any]] = set()

    @property
    def free(self) -> int:
        return max(self._free, 0)

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """What a drain waits for."""
        return set(self._tasks)

    def __iter__(self) -> Iterator[Flight]:
        return iter(list(self._by_event.values()))

    def __contains__(self, event_id: int) -> bool:
        return event_id in self._by_event

    def reserve(self, slots: int = 1) -> bool:
        """Take slots; False when there are not so many."""
        if self._free < slots:
            return False
        self._free -= slots
        return True

    def give_back(self, slots: int = 1) -> None:
        self._free += slots
        self.on_free()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The slot of a handler that waits for others goes to one of them; it has it back when it goes on."""
        self.give_back()
        try:
            yield
        finally:
            self._free -= 1

    def spawn(self, work: Coroutine[Any, Any, None], *, in_place: bool) -> asyncio.Task[Any]:
        """Start work in a reserved slot, which is free again when the work ends; or in the place of a handler."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        if in_place:
            self._in_place.add(task)
        task.add_done_callback(self._ended)
        return task

    def board(self, claim: Claim, task: asyncio.Task[Any], required: Names | None, outer: HandlerCall | None) -> Flight:
        """The claim is in hand until the task ends. One of the same event that is still here is proven lost by it."""
        if (lost := self._by_event.get(claim.held.id)) is not None:
            _stop_lost(lost)
        flight = Flight(claim, task, required, outer)
        self._tasks[task] = self._by_event[claim.held.id] = flight
        return flight

    def launch(
        self,
        claim: Claim,
        fly: Callable[[Flight], Coroutine[Any, Any, None]],
        required: Names | None,
        outer: HandlerCall | None,
        *,
        in_place: bool,
    ) -> None:
        """Both at once, for a claim that has a slot already, or runs in the place of the handler that waits for it."""
        boarded: list[Flight] = []

        async def run() -> None:
            await fly(boarded[0])

        task = self.spawn(run(), in_place=in_place)
        boarded.append(self.board(claim, task, required, outer))

    def land(self, flight: Flight) -> None:
        """It is in hand no more, though its task may still have words to say."""
        if self._by_event.get(flight.held.id) is flight:
            del self._by_event[flight.held.id]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        flight = self._tasks.pop(task)
        if flight is not None:
            self.land(flight)
        if not task.cancelled() and (error := task.exception()) is not None:
            event_id = flight.event.id if flight else None
            log.error("attempt_broke_off", event_id=event_id, error=str(error), exc_info=error)
        if task in self._in_place:
            self._in_place.discard(task)
        else:
            self.give_back()

    async def keep_leases(self, store: Store, lease: timedelta, now: Callable[[], datetime | None]) -> None:
        """Extend every lease in hand, again and again; what turns out lost runs elsewhere and stops here."""
        every = lease.total_seconds() / EXTENSIONS_PER_LEASE
        while True:
            await asyncio.sleep(every)
            in_hand = list(self)
            try:
                lost = await store.extend([flight.held for flight in in_hand], lease, now=now())
            except StoreClosed:
                return
            except Exception as error:  # noqa: BLE001 - without this task every long handler would lose its claim
                log.warning("lease_extension_failed", claims=len(in_hand), error=str(error))
                continue
            for flight in in_hand:
                if flight.held.id in lost:
                    _stop_lost(flight)


def _stop_lost(flight: Flight) -> None:
    """Its event runs elsewhere, or again: what still runs here would only do the work twice."""
    if not flight.settling and not flight.task.done():
        log.warning("claim_lost", event_id=flight.event.id, event_type=flight.event.type)
        flight.task.cancel()


def _nothing() -> None:
    """What happens when a slot is free and nobody has asked to be told."""
