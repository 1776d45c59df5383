"""The bus: publish and subscribe in one process, on a store that forgets nothing.

publish ──▶ Publisher ──▶ store ──▶ Dispatcher ──▶ Processor ──▶ handlers
                └── stored and claimed in one commit ──▲            │
who waits ◀──────────────── settled ◀───────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar

from eventhub.bus.breaker import BreakerSettings
from eventhub.bus.counters import Counters, TypeCounters
from eventhub.bus.dispatcher import Dispatcher
from eventhub.bus.ending import EVENTS, Ending
from eventhub.bus.flights import Flight, Flights
from eventhub.bus.parts import Parts
from eventhub.bus.presence import Presence
from eventhub.bus.processing import Processor, Rules
from eventhub.bus.publishing import Publisher
from eventhub.bus.settings import Tuning, check_choice, check_seconds
from eventhub.bus.subscriptions import Handler, Subscriptions
from eventhub.bus.waiting import Waiting, unwanted
from eventhub.clock import Clock, check_clock
from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.core.matching import check_queue
from eventhub.core.retry import RetryPolicy
from eventhub.errors import InvalidEventError, SettingsError
from eventhub.handling.logs import get_logger
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.workers import new_worker

__all__ = ["EventBus"]

log = get_logger("eventhub.bus")

H = TypeVar("H", bound=Handler)


class EventBus:
    """Handlers in this process for events in a store.

    ``target`` is a path or URL, which the bus opens and closes, or a ``Store``, which stays its owner's.

    - ``retry``, ``timeout`` (seconds a handler may take) and ``breaker`` are for subscriptions without.
    - ``on_unmatched``: an event that nobody wants is stored as COMPLETED; with ``"keep"`` it stays PENDING.
    - ``on_missing``: an event that needs a handler which is not here waits for a bus that has all its handlers; with
      ``"skip"`` it goes on with those that are.
    - ``retry_scope``: a retry runs all handlers of the event, or with ``"handler"`` only those that failed.
    - ``stop_on_first_failure``: later handlers of an attempt do not run after a failure.
    - ``name``: the queue in the store; buses of one name share the work, others do not see it.
    - ``clock``: for tests; None lets the database's clock decide what is due.
    """

    def __init__(
        self,
        target: Store | str | os.PathLike[str],
        *,
        retry: Mapping[str, Any] | RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        timeout: float = 30.0,
        shutdown_timeout: float = 30.0,
        name: str = "bus",
        on_unmatched: Literal["complete", "keep"] = "complete",
        on_missing: Literal["wait", "skip"] = "wait",
        retry_scope: Literal["event", "handler"] = "event",
        stop_on_first_failure: bool = False,
        breaker: BreakerSettings | None = None,
        tuning: Tuning = Tuning(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        check_choice("on_unmatched", on_unmatched, "complete", "keep")
        check_choice("on_missing", on_missing, "wait", "skip")
        check_choice("retry_scope", retry_scope, "event", "handler")
        check_seconds("timeout", timeout)
        check_seconds("shutdown_timeout", shutdown_timeout, zero=True)
        if not isinstance(tuning, Tuning):
            raise SettingsError(f"tuning is {tuning!r}; give Tuning(), with or without changes.")
        retry = RetryPolicy().override(retry)
        self._clock = check_clock(clock)
        self._composer = Composer(name, routed=False)
        worker = new_worker()
        self._parts = Parts(
            store=target if isinstance(target, Store) else open_store(target),
            queue=check_queue("The bus name", name),
            worker=worker,
            tuning=tuning,
            now=self._now,
            subscriptions=Subscriptions(
                owner=worker, timeout=timeout, retry=retry, breaker=breaker, skip_missing=on_missing == "skip"
            ),
            flights=Flights(limit=tuning.concurrency),
            waiting=Waiting(),
            counters=TypeCounters(),
        )
        rules = Rules(only_failed_again=retry_scope == "handler", stop_on_first_failure=stop_on_first_failure)
        self._processor = Processor(self._parts, rules=rules, timer=self._seconds, ending=lambda: self._ending.begun)
        self._dispatcher = Dispatcher(self._parts, self._fly)
        self._presence = Presence(self._parts)
        complete = on_unmatched == "complete"
        self._publisher = Publisher(self._parts, self._fly, retry=retry, complete_unmatched=complete)
        owned = not isinstance(target, Store)
        self._ending = Ending(self._parts, self._dispatcher, self._presence, timeout=shutdown_timeout, owns_store=owned)
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        """The queue in the store that this bus works on."""
        return self._parts.queue

    @property
    def store(self) -> Store:
        return self._parts.store

    @property
    def counters(self) -> Mapping[str, Counters]:
        """Numbers by event type: total, retries, success_after_retry, dlq."""
        return self._parts.counters

    # ------------------------------------------------------------------ life

    async def start(self) -> Self:
        """Take back what a dead process held and begin to dispatch; harmless when it runs already."""
        self._ending.check("work")
        if self._tasks:
            return self
        async with self._starting:
            self._ending.check("work")
            if self._tasks:
                return self
            parts = self._parts
            await self._presence.announce()
            recovered = await parts.store.recover(parts.queue, now=parts.now())
            if recovered.total:
                log.info(
                    "recovered",
                    queue=parts.queue,
                    events=recovered.abandoned,
                    worker_lost=list(recovered.buried),
                )
            keeping = parts.flights.keep_leases(parts.store, parts.tuning.lease, parts.now)
            running = (self._dispatcher.run(), keeping, self._presence.run())
            self._tasks = [asyncio.create_task(work) for work in running]
        return self

    async def shutdown(self) -> None:
        """Take no more work, finish what is in hand, give back what takes too long, close the store."""
        await self._ending.shutdown(self._started_tasks)

    async def destroy(self) -> None:
        """Stop at once, like a crash: what was in hand is recovered at the next start."""
        await self._ending.destroy(self._started_tasks)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def _started_tasks(self) -> list[asyncio.Task[None]]:
        async with self._starting:  # a start that is under way comes to its end first
            return self._tasks

    # --------------------------------------------------------- subscriptions

    def subscribe(
        self,
        pattern: str,
        handler: Handler,
        *,
        timeout: float | None = None,
        retry: Mapping[str, Any] | RetryPolicy | None = None,
        breaker: BreakerSettings | None = None,
        name: str | None = None,
    ) -> str:
        """Call the handler for every event whose type fits the pattern; returns the subscription's id.

        ``*`` alone takes everything; else ``*`` stands for exactly one dot-separated segment, and the rest
        is literal. What is not given is as the bus has it.

        An event remembers its handlers by ``name``, across restarts and processes: give one to a lambda, a closure or
        a method, and to a function that may be renamed. Without, it is the function's module and qualified name.
        """
        self._ending.check("subscriptions")
        added = self._parts.subscriptions.add(
            pattern, handler, timeout=timeout, retry=retry, breaker=breaker, name=name
        )
        self._dispatcher.subscriptions_changed()
        self._presence.changed()
        return added.id

    def on(self, pattern: str, **options: Any) -> Callable[[H], H]:
        """The same as a decorator; it takes the options of ``subscribe``."""
        if callable(pattern):
            raise SettingsError("The decorator was used without a pattern; write @bus.on('order.*').")

        def register(handler: H) -> H:
            self.subscribe(pattern, handler, **options)
            return handler

        return register

    async def unsubscribe(self, subscription_id: str) -> bool:
        """Stop calling a handler; False when there is none with that id. A running call goes on."""
        removed = self._parts.subscriptions.remove(subscription_id)
        if removed:
            for waited in self._parts.waiting.events():
                if waited.id not in self._parts.flights and not self._parts.has_handlers(waited):
                    self._parts.waiting.fail(waited.id, unwanted)
            self._presence.changed()
        return removed

    # --------------------------------------------------------------- publish

    async def publish(
        self,
        type: str,  # noqa: A002
        payload: Any,
        metadata: Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        ordering_key: str | None = None,
        idempotency_key: str | None = None,
        delay: timedelta | float | None = None,
        tags: str | Iterable[str] | None = None,
    ) -> int:
        """Store an event and return its id, once it is COMPLETED or FAILED, retries included.

        With ``wait=False``, or when nobody here wants it, it returns after the commit. Events of one
        ``ordering_key`` are handled one after the other; an ``idempotency_key`` stands for one event.
        """
        self._ending.check(EVENTS)
        details = {
            "metadata": metadata,
            "ordering_key": ordering_key,
            "idempotency_key": idempotency_key,
            "delay": delay,
            "tags": tags,
        }
        event = self._composer.one(type, payload, details)
        if not self._tasks:
            await self.start()
        return await self._publisher.publish(event, wait=wait)

    async def publish_many(self, events: Iterable[Mapping[str, Any] | tuple[Any, ...]]) -> list[int]:
        """Store many events in one commit, all or none, and return their ids without waiting for handlers.

        Each is a mapping with the arguments of ``publish``, or a tuple of type, payload and perhaps metadata.
        """
        self._ending.check(EVENTS)
        several = self._composer.many(map(_as_mapping, events))
        if not self._tasks:
            await self.start()
        return await self._publisher.publish_many(several)

    # -------------------------------------------------------------- internal

    def _now(self) -> datetime | None:
        return None if self._clock is None else self._clock.now()

    def _seconds(self) -> float:
        return time.monotonic() if self._clock is None else self._clock.now().timestamp()

    async def _fly(self, flight: Flight) -> None:
        """Take a claimed event through its attempt and tell everybody concerned how it ended."""
        try:
            outcome = await self._processor.process(flight)
        except asyncio.CancelledError:  # stopped, or lost: the store knows what becomes of it
            self._dispatcher.follow_soon()
            raise
        finally:
            self._parts.flights.land(flight)  # before anybody is told, who may ask whether it is still in hand
        self._ended(flight, outcome)

    def _ended(self, flight: Flight, outcome: Outcome | None) -> None:
        event, parts = flight.event, self._parts
        counters = parts.counters.of(event.type)
        if isinstance(outcome, Complete):
            counters.success_after_retry += event.attempts > 1
            parts.waiting.settled(event.id)
        elif isinstance(outcome, Bury):
            counters.dlq += 1
            parts.waiting.settled(event.id)
        elif outcome is None:
            self._dispatcher.follow_soon()
        else:
            counters.retries += isinstance(outcome, Retry)
            if parts.subscriptions.matching(event.type, flight.required) is None:
                parts.waiting.fail(event.id, unwanted)
            self._dispatcher.due_in(outcome.delay)


def _as_mapping(item: Any) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return item
    if isinstance(item, tuple) and len(item) in (2, 3):
        return dict(zip(("type", "payload", "metadata"), item, strict=False))
    raise InvalidEventError(f"publish_many got {item!r:.80}; give mappings, or tuples of type, payload and metadata.")
