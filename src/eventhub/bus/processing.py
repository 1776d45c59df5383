"""One attempt at one event, from the claim to the settled outcome.

claim ─▶ breakers let it pass? ─ no ─▶ release, due when they may
              │ yes
              ▼
         handlers, one after the other ─▶ all good ─▶ complete
              │ a failure                                      each ─▶ settle, with patience for the database
              └─▶ the merged policy: retry after a wait, or bury
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec

from eventhub.bus.breaker import Breaker
from eventhub.bus.calling import Caller
from eventhub.bus.flights import Flight
from eventhub.bus.parts import Parts
from eventhub.bus.subscriptions import Matched, Subscription
from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.errors import StoreClosed, StoreError
from eventhub.handling.backoff import Backoff
from eventhub.handling.logs import get_logger
from eventhub.store.values import Report

__all__ = ["Failure", "Processor", "Rules"]

log = get_logger("eventhub.bus")

SUCCESS: Final = "success"
FAILED: Final = "transient"
SHUTDOWN_DELAY: Final = timedelta(seconds=1)
"""Until an event is tried again that the end of its bus made fail: not at once, by the bus that still drains."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a failure means for the other handlers of an event."""

    only_failed_again: bool = False
    """A retry runs only the handlers that failed, instead of all of them."""
    stop_on_first_failure: bool = False


class Failure(msgspec.Struct, frozen=True):
    """A handler that failed in this attempt, and how."""

    subscription: Subscription
    error: str
    shutdown: bool


class Processor:
    """Takes claimed events through their handlers."""

    def __init__(self, parts: Parts, *, rules: Rules, timer: Callable[[], float], ending: Callable[[], bool]) -> None:
        self._ending = ending  # whether the bus is being stopped
        self._store, self._now, self._subscriptions = parts.store, parts.now, parts.subscriptions
        self._caller = Caller(parts.tuning.threads, bus=parts.worker)
        self._rules = rules
        self._timer = timer  # the breakers' clock, in seconds

    async def process(self, flight: Flight) -> Outcome | None:
        """Attempt and settle; returns the outcome that the store accepted, None when the claim was lost."""
        matched = self._subscriptions.matching(flight.event.type, flight.required)
        if matched is None:  # a handler that it needs went away since it was claimed
            return await self._settle(flight, Release())
        if matched.skipped:
            log.warning("handlers_skipped", event_id=flight.event.id, handlers=list(matched.skipped))
        wait = max((s.breaker.wait(self._timer()) for s in matched.subscriptions if s.breaker), default=0.0)
        if wait > 0:
            return await self._settle(flight, Release(timedelta(seconds=wait)))
        return await self._settle(flight, await self._attempt(flight, matched))

    async def _attempt(self, flight: Flight, matched: Matched) -> Outcome:
        event, started = flight.event, time.monotonic()
        breakers = [s.breaker for s in matched.subscriptions if s.breaker]
        for breaker in breakers:
            breaker.admit(event.id)
        try:
            failures = await self._run(flight, matched)
        finally:  # a result that was recorded is not taken back by this
            for breaker in breakers:
                breaker.withdraw(event.id)
        took = round((time.monotonic() - started) * 1000)
        if not failures:
            return Complete(execution_ms=took)
        if any(failure.shutdown for failure in failures) and self._ending():
            return Release(SHUTDOWN_DELAY)
        error = "; ".join(failure.error for failure in failures)
        outcome = matched.policy.after_failure(event.attempts, error, roll=random.uniform(-1, 1))  # noqa: S311
        _log_failure(flight, matched, failures, outcome)
        return msgspec.structs.replace(outcome, execution_ms=took)

    async def _run(self, flight: Flight, matched: Matched) -> list[Failure]:
        event, subscriptions = flight.event, matched.subscriptions
        remember = self._rules.only_failed_again and len(subscriptions) > 1
        if remember and flight.again:  # a claim that was given back is not counted as an attempt
            done = await self._done_already(event.id)
            subscriptions = tuple(s for s in subscriptions if self._subscriptions.result_key(s) not in done)
        failures: list[Failure] = []
        for place, subscription in enumerate(subscriptions, 1):
            own = event if place == len(subscriptions) else event.copy()  # what one changes, no other sees
            failed = await self._caller.call(subscription, own, flight.outer)
            error = None if failed is None else failed.error
            if subscription.breaker is not None:
                self._tell(subscription, subscription.breaker, event.id, failed=error is not None)
            if remember:
                await self._remember(flight, subscription, error)
            if failed is not None:
                failures.append(Failure(subscription, failed.error, failed.shutdown))
                if self._rules.stop_on_first_failure:
                    break
        return failures

    def _tell(self, subscription: Subscription, breaker: Breaker, event_id: int, *, failed: bool) -> None:
        before = breaker.state
        breaker.record(event_id, failed=failed, now=self._timer())
        if breaker.state is not before:
            pattern = subscription.pattern.text
            log.warning("breaker_moved", subscription_id=subscription.id, pattern=pattern, state=breaker.state.value)

    async def _done_already(self, event_id: int) -> set[str]:
        """The keys of handlers that succeeded in an earlier attempt; worth waiting for."""
        backoff = Backoff()
        while True:
            try:
                results = await self._store.handler_results([event_id])
            except StoreClosed:
                raise
            except StoreError as error:
                log.warning("handler_results_unknown", event_id=event_id, error=str(error))
                await asyncio.sleep(backoff.pause())
            else:
                return {key for key, (kind, _) in results.get(event_id, {}).items() if kind == SUCCESS}

    async def _remember(self, flight: Flight, subscription: Subscription, error: str | None) -> None:
        """Right after the handler returned, so that a crash before the settlement does not run it again."""
        result = (self._subscriptions.result_key(subscription), SUCCESS if error is None else FAILED, error)
        try:
            await self._store.record_results(flight.held, [result], now=self._now())
        except StoreError as problem:  # then it may run once more, which at-least-once allows
            log.warning("handler_result_not_kept", event_id=flight.event.id, error=str(problem))

    async def _settle(self, flight: Flight, outcome: Outcome) -> Outcome | None:
        """Write the outcome. While the database is away the claim is kept and the report tried again."""
        flight.settling = True
        event, backoff = flight.event, Backoff()
        while True:
            try:
                (settled,) = await self._store.settle([Report(flight.held, outcome)], now=self._now())
            except StoreClosed:
                log.warning("outcome_not_stored", event_id=event.id, event_type=event.type, outcome=_word(outcome))
                return None
            except StoreError as error:
                pause = backoff.pause()
                log.warning("settle_failed", event_id=event.id, retry_in_ms=round(pause * 1000), error=str(error))
                await asyncio.sleep(pause)
            else:
                break
        if settled.accepted:
            return outcome
        log.warning("claim_lost", event_id=event.id, event_type=event.type, outcome=_word(outcome))
        return None


def _log_failure(flight: Flight, matched: Matched, failures: list[Failure], outcome: Retry | Bury) -> None:
    """One record for every failed attempt; the last one, which leads to the dead letters, has no delay."""
    final = isinstance(outcome, Bury)
    write = log.error if final else log.warning
    write(
        "handler_failed",
        event_id=flight.event.id,
        event_type=flight.event.type,
        subscription_id=failures[0].subscription.id,
        attempt=flight.event.attempts,
        max_attempts=matched.policy.max_attempts,
        delay_ms=None if isinstance(outcome, Bury) else round(outcome.delay.total_seconds() * 1000),
        error=outcome.error,
        failures=[{"subscription_id": f.subscription.id, "error": f.error} for f in failures],
    )


def _word(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()
