"""From a publisher's call to a stored event.

An event that somebody here wants is stored and claimed in one commit, so its handlers can start at once.
Without a free slot, or when it may have to wait, it is stored as ready and the dispatcher finds it. What a handler of
this bus waits for needs no slot (see ``nesting``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from eventhub.bus.flights import Flight
from eventhub.bus.nesting import HandlerCall, calls_around, check_nested, current_call
from eventhub.bus.parts import Parts
from eventhub.bus.subscriptions import Matched
from eventhub.core.retry import RetryPolicy
from eventhub.errors import EventBusShutdownError, NestedPublishError
from eventhub.store.buses import Names
from eventhub.store.claims import FIRST_CLAIM, Claim, Held
from eventhub.store.rows import as_published
from eventhub.store.values import NewEvent, Published

__all__ = ["Publisher"]


class Publisher:
    """Stores events for one bus."""

    def __init__(
        self,
        parts: Parts,
        fly: Callable[[Flight], Coroutine[Any, Any, None]],
        *,
        retry: RetryPolicy,
        complete_unmatched: bool,
    ) -> None:
        self._store, self._worker, self._now = parts.store, parts.worker, parts.now
        self._lease, self._counters = parts.tuning.lease, parts.counters
        self._subscriptions, self._flights, self._waiting = parts.subscriptions, parts.flights, parts.waiting
        self._retry, self._complete_unmatched = retry, complete_unmatched
        self._fly = fly

    async def publish(self, event: NewEvent, *, wait: bool) -> int:
        """Store one event and, if asked and if somebody here wants it, wait until it is settled."""
        matched = self._prepare(event)
        if matched is None:
            return (await self._store_all([event]))[0].id
        outer = current_call() if wait else None
        if outer is not None:
            check_nested(outer, self._worker, event.ordering_key)
        in_place = any(calls_around(outer, self._worker))
        at_once = event.ordering_key is None and event.delay is None
        if at_once and (in_place or (not self._flights.crowded and self._flights.reserve())):
            return await self._publish_leased(event, matched.names, outer, wait=wait, in_place=in_place)
        (published,) = await self._store_all([event])
        if wait:
            waiter = self._join(published, event, matched.names, outer)
            await self._settled(published, waiter, outer, in_place=in_place)
        return published.id

    async def publish_many(self, events: Sequence[NewEvent]) -> list[int]:
        """Store events in one commit, all or none; the dispatcher takes them from there."""
        for event in events:
            self._prepare(event)
        return [published.id for published in await self._store_all(events)]

    def _prepare(self, event: NewEvent) -> Matched | None:
        """Who here wants it, which it remembers; if nobody, it is complete as it is or kept for who comes later."""
        matched = self._subscriptions.matching(event.type)
        event.max_attempts = (matched.policy if matched else self._retry).max_attempts
        event.completed = matched is None and self._complete_unmatched
        event.handlers = None if matched is None else matched.required
        return matched

    async def _store_all(self, events: Sequence[NewEvent]) -> Sequence[Published]:
        stored = await self._store.publish(events, now=self._now())
        for event, published in zip(events, stored, strict=True):
            self._counters.of(event.type).total += not published.duplicate
        return stored

    async def _publish_leased(
        self, event: NewEvent, names: Names, outer: HandlerCall | None, *, wait: bool, in_place: bool
    ) -> int:
        """Store it claimed, in a task of its own: a publisher that is cancelled orphans no claim."""
        event.worker, event.lease = self._worker, self._lease
        ticket = _Ticket(wait=wait)
        task = self._flights.spawn(self._carry(event, names, outer, ticket), in_place=in_place)
        task.add_done_callback(ticket.task_ended)
        try:
            published = await asyncio.shield(ticket.stored)
        except asyncio.CancelledError:
            ticket.leave()
            raise
        if ticket.waiter is not None:
            await self._settled(published, ticket.waiter, outer, in_place=in_place)
        return published.id

    async def _carry(self, event: NewEvent, names: Names, outer: HandlerCall | None, ticket: _Ticket) -> None:
        try:
            (published,) = await self._store_all([event])
        except Exception as error:  # noqa: BLE001 - it is the publisher's
            ticket.stored.set_exception(error)
            return
        if ticket.wait:
            ticket.waiter = self._join(published, event, names, outer)
        ticket.stored.set_result(published)
        task = asyncio.current_task()
        if published.leased and task is not None:
            claim = Claim(Held(published.id, FIRST_CLAIM), as_published(event, published), event.max_attempts)
            await self._fly(self._flights.board(claim, task, names, outer))

    def _join(
        self, published: Published, event: NewEvent, names: Names, outer: HandlerCall | None
    ) -> asyncio.Future[None]:
        """Wait for the event. One that was published before is not run for whoever waits now: it has a place."""
        return self._waiting.join(published.id, event.type, names, None if published.duplicate else outer)

    async def _settled(
        self, published: Published, waiter: asyncio.Future[None], outer: HandlerCall | None, *, in_place: bool
    ) -> None:
        """Wait for the end. A handler that waits for what has to wait itself lends its slot to who is before it."""
        if published.duplicate:
            if any(call.event_id == published.id for call in calls_around(outer, self._worker)):
                waiter.cancel()
                raise NestedPublishError(
                    f"A handler of event {published.id} publishes under the idempotency key of that event and waits, "
                    "which is to wait for itself. Publish with wait=False, or under another key."
                )
            if published.id not in self._flights and published.id not in await self._store.current([published.id]):
                self._waiting.settled(published.id)  # the first event of this key is settled already
        if in_place and not published.leased:
            with self._flights.lent():
                await waiter
        else:
            await waiter


class _Ticket:
    """What a publisher holds while a task stores its event."""

    def __init__(self, *, wait: bool) -> None:
        self.stored: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        self.waiter: asyncio.Future[None] | None = None
        self.wait = wait

    def leave(self) -> None:
        """The publisher was cancelled; its event goes on without it."""
        self.wait = False
        if self.waiter is not None:
            self.waiter.cancel()

    def task_ended(self, _: asyncio.Task[Any]) -> None:
        if not self.stored.done():
            self.stored.set_exception(
                EventBusShutdownError(
                    "The bus was destroyed while the event was being stored, so it may be stored or not. "
                    "Publish it again; an idempotency_key keeps it from being stored twice."
                )
            )
        with suppress(asyncio.CancelledError):
            self.stored.exception()  # seen, so that asyncio does not report it when the publisher is gone
