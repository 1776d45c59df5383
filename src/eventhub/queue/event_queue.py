"""The queue: publish, poll, finalize. A claim is a fenced lease: a worker that lost it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Self, Unpack

from msgspec import UNSET, UnsetType

from eventhub.clock import Clock, check_clock
from eventhub.core.events import Event, QueuedEvent, Status
from eventhub.core.lifecycle import Release
from eventhub.core.matching import check_queue
from eventhub.core.retry import RetryPolicy
from eventhub.errors import InvalidEventError, SettingsError
from eventhub.queue.claims import ClaimMemory
from eventhub.queue.reporting import Reporter
from eventhub.queue.verdicts import finalized
from eventhub.store import Store, open_store
from eventhub.store.columns import Doubtful, ids_of
from eventhub.store.composing import Composer, Details
from eventhub.store.rows import as_published
from eventhub.store.values import QueueStats
from eventhub.store.workers import new_worker, retire

__all__ = ["EventQueue", "as_duration"]

HANDLER_RETRY: Final = RetryPolicy(max_retries=19, base_delay=5.0, max_delay=3600.0)
"""Of a manager, unless its queue says otherwise."""
_DEFAULT_LEASE: Final = timedelta(minutes=1)


class EventQueue:
    """A named queue in a database: every event goes to exactly one poller at a time, oldest first.

    ``target`` is a path, a store URL or an open store that others use too. Nothing is opened before the first use.

    - ``abandoned_after``: the lease of a poll; an event not finalized or extended by then goes to another poller.
    - ``max_attempts`` ends an event that fails, or loses its worker, that many times; None means no limit. If it is not
      given, the handlers of a manager have 20 attempts, and whoever polls has no limit.
    - ``retry_after``: the wait before a failed event is tried again, by default ``abandoned_after``; in a manager by
      default 5 seconds, and twice as long each time up to an hour.
    - ``on_dead``: a dead event lets the others of its ordering key go on (``"skip"``), or holds them until
      somebody retries it or calls ``unpark`` (``"park"``).
    - ``clock``: for tests, any object with ``now()``; None means the database's clock.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        queue: str = "default",
        abandoned_after: timedelta | float = _DEFAULT_LEASE,
        max_attempts: int | UnsetType | None = UNSET,
        retry_after: timedelta | float | None = None,
        priority: int = 0,
        on_dead: Literal["skip", "park"] = "skip",
        clock: Clock | None = None,
        worker: str | None = None,
    ) -> None:
        self.name = check_queue("The queue", queue)
        self.abandoned_after = as_duration("abandoned_after", abandoned_after)
        self.retry_after = (
            self.abandoned_after if retry_after is None else as_duration("retry_after", retry_after, zero=True)
        )
        if not (max_attempts is None or max_attempts is UNSET) and (
            not isinstance(max_attempts, int) or max_attempts < 1
        ):
            raise SettingsError(f"max_attempts is {max_attempts!r}; give 1 or more, or None for no limit.")
        if on_dead not in ("skip", "park"):
            raise SettingsError(f"on_dead is {on_dead!r}; give 'skip' or 'park'.")
        self.max_attempts = None if isinstance(max_attempts, UnsetType) else max_attempts
        self.handler_retry = _handler_retry(max_attempts, None if retry_after is None else self.retry_after)
        self.clock = check_clock(clock)
        self.store: Store = target if isinstance(target, Store) else open_store(os.fspath(target))
        self._owns_store = not isinstance(target, Store)
        self._owns_name = worker is None
        self.worker = new_worker() if worker is None else worker
        self._composer = Composer(
            self.name, priority=priority, max_attempts=self.max_attempts, park_when_dead=on_dead == "park"
        )
        self._claims = ClaimMemory()
        self._reporter = Reporter(self, self._claims)

    async def close(self) -> None:
        """Let go of the store, if this queue opened it; harmless when it is closed already."""
        if self._owns_name:
            retire(self.worker)
        if self._owns_store:
            await self.store.close()

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def now(self) -> datetime | None:
        """The injected clock's time; None means that the database's clock decides."""
        return None if self.clock is None else self.clock.now()

    # -------------------------------------------------------------- publish

    async def publish(
        self,
        event: str | Mapping[str, Any],
        payload: Any = None,
        *,
        connection: Any = None,
        **details: Unpack[Details],
    ) -> QueuedEvent:
        """Store an event, given as a mapping or as a type and a payload; returns after the commit.

        With ``connection`` it becomes part of your own open transaction (an asyncpg connection on PostgreSQL,
        an apsw connection on SQLite): your rollback leaves nothing of it. The same ``idempotency_key`` with
        the same event gives the first event back.
        """
        new = self._composer.one(event, payload, details)
        now = self.now()
        (published,) = await self.store.publish([new], connection=connection, now=now)
        if published.duplicate:
            first = await self.store.event(published.id)
            if first is not None:
                return first
        return as_published(new, published)

    async def publish_many(
        self,
        events: str | Iterable[Mapping[str, Any]],
        payloads: Iterable[Any] | None = None,
        *,
        connection: Any = None,
    ) -> list[int]:
        """Store many events, all or none: mappings, or one type and their payloads. Returns their ids in order.

        The payloads of a large batch are checked while it is being written: leave them alone until this returns.
        """
        given = _batch(events, payloads)
        now = self.now()
        with suppress(Doubtful):  # then nothing was stored
            together = self._composer.alike(*given) if isinstance(given, tuple) else self._composer.together(given)
            return ids_of(await self.store.publish(together, connection=connection, now=now))
        each = [{"type": given[0], "payload": one} for one in given[1]] if isinstance(given, tuple) else given
        return ids_of(await self.store.publish(self._composer.many(each), connection=connection, now=now))

    # ----------------------------------------------------------------- poll

    async def poll(self, clock: Clock | None = None) -> QueuedEvent | None:
        """Take the oldest event that is ready, or None at once when there is none."""
        taken = await self.poll_many(1, clock)
        return taken[0] if taken else None

    async def poll_many(self, limit: int, clock: Clock | None = None) -> list[QueuedEvent]:
        """Take up to ``limit`` events that are ready, oldest first."""
        if limit < 1:
            raise SettingsError(f"limit is {limit}; give 1 or more.")
        clock = check_clock(clock) or self.clock
        claims = await self.store.claim(
            self.name,
            worker=self.worker,
            lease=self.abandoned_after,
            limit=limit,
            max_attempts=self.max_attempts,
            now=None if clock is None else clock.now(),
        )
        for claim in claims:
            self._claims.remember(claim, clock)
        return [claim.event for claim in claims]

    # --------------------------------------------------------------- report

    async def finalize(
        self,
        event: int | Event,
        success: bool | None = None,  # noqa: FBT001 - the seed's own signature
        errors: Sequence[object] = (),
        *,
        fence: int | None = None,
    ) -> None:
        """End an event: completed, failed (``success=False``), or completed with errors (``errors=[…]``).

        Give the event as it was polled, or its id: an id stands for the latest claim of this queue object, or
        for an event that nobody holds. The first verdict stands; repeating is harmless. Raises EventNotFound
        for an unknown id, and ClaimLost when somebody else has the event now.
        """
        await self._reporter.settle(event, finalized(success=success, errors=errors), fence=fence)

    async def finalize_many(
        self,
        events: Iterable[int | Event],
        success: bool | None = None,  # noqa: FBT001 - as in finalize
        errors: Sequence[object] = (),
    ) -> None:
        """End many events the same way in one write; errors of some come after the others are settled."""
        await self._reporter.settle_many(list(events), finalized(success=success, errors=errors))

    async def fail(
        self,
        event: int | Event,
        error: object,
        *,
        delay: timedelta | float | None = None,
        fence: int | None = None,
    ) -> bool:
        """This attempt failed in a way that may pass: try again after ``delay``, by default ``retry_after``.

        Returns False when that was the last attempt allowed and the event is in the dead letter queue now.
        """
        wait = self.retry_after if delay is None else as_duration("delay", delay, zero=True)
        return await self._reporter.fail(event, error, delay=wait, fence=fence)

    async def release(
        self, event: int | Event, *, delay: timedelta | float = timedelta(0), fence: int | None = None
    ) -> None:
        """Give an event back untouched: no attempt is charged."""
        await self._reporter.give_back(event, Release(as_duration("delay", delay, zero=True)), fence=fence)

    async def extend(
        self, event: int | Event, lease: timedelta | float | None = None, *, fence: int | None = None
    ) -> None:
        """Keep an event for another ``lease`` from now, by default ``abandoned_after``."""
        longer = self.abandoned_after if lease is None else as_duration("lease", lease)
        await self._reporter.extend(event, longer, fence=fence)

    # -------------------------------------------------------------- numbers

    async def unpark(self, ordering_key: str, *, by: str = "operator") -> bool:
        """Let a key go on past the dead event that holds it; False when nothing holds it. The dead letter stays."""
        return await self.store.unpark(self.name, ordering_key, by=by, now=self.now())

    async def stats(self) -> QueueStats:
        """The queue in numbers: depth by status, ages, attempts, latency, failure rate."""
        found = await self.store.stats(self.name)
        return found[0] if found else QueueStats(queue=self.name, depth=dict.fromkeys(Status, 0))


def as_duration(name: str, value: timedelta | float, *, zero: bool = False) -> timedelta:
    """A timedelta, or seconds, as a timedelta; it must be positive, or at least zero."""
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(f"{name} is {value!r}; give a timedelta or seconds.") from None
    if duration < timedelta(0) or not (zero or duration):
        raise SettingsError(f"{name} is {value!r}; give {'0 or more' if zero else 'more than 0'}.")
    return duration


def _handler_retry(max_attempts: int | UnsetType | None, retry_after: timedelta | None) -> RetryPolicy:
    """How managers try again."""
    attempts = HANDLER_RETRY.max_attempts if isinstance(max_attempts, UnsetType) else max_attempts
    max_retries = None if attempts is None else attempts - 1
    if retry_after is not None:
        return RetryPolicy.listed([retry_after.total_seconds()], jitter=0.0).override({"max_retries": max_retries})
    return HANDLER_RETRY.override({"max_retries": max_retries})


def _batch(
    events: str | Iterable[Mapping[str, Any]], payloads: Iterable[Any] | None
) -> tuple[str, list[Any]] | list[Mapping[str, Any]]:
    """What is to be published: one type and payloads, or mappings."""
    if isinstance(events, str):
        if payloads is None or isinstance(payloads, str | bytes | Mapping):
            raise InvalidEventError(
                f"publish_many got the type {events!r:.80} and {payloads!r:.80} as payloads; give a list of them."
            )
        return events, list(payloads)
    if payloads is not None:
        raise InvalidEventError("publish_many got events and payloads; give a type and payloads, or events alone.")
    return list(events)
