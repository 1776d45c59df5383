"""The work queue of remote workers: the rules of taking and reporting work, whatever carries the words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Self

from eventhub.clock import Clock
from eventhub.core.matching import check_name
from eventhub.errors import EventHubError
from eventhub.queue.event_queue import as_duration
from eventhub.queue.work.values import Lease, Recorded, WorkerState, WorkReport
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.values import Claim, NewEvent, Published

__all__ = ["WorkQueue"]

LEASE: Final = timedelta(seconds=300)
RETRY_AFTER: Final = timedelta(seconds=300)
SILENT: Final = timedelta(seconds=30)


class WorkQueue:
    """A queue for workers that are elsewhere: they know an event's id and their own name, and may lose every answer.

    ``target`` is a path, a store URL or an open store that others use too. Nothing is opened before the first use.

    - ``max_retries``: so many failures, abandoned claims among them, end an event in the dead letter queue.
    - ``retry_after``: the wait before a failed event is offered again.
    - ``lease``: how long a claim lasts unless the worker asks for another time.
    - ``clock``: for tests, any object with ``now()``; None means the database's clock.

    Events of other queues are unknown here: they are never shown and never touched.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Store,
        *,
        queue: str = "work",
        max_retries: int = 3,
        retry_after: timedelta | float = RETRY_AFTER,
        lease: timedelta | float = LEASE,
        clock: Clock | None = None,
    ) -> None:
        self.name = check_name("The queue", queue)
        self.max_retries = max_retries
        self.retry_after = as_duration("retry_after", retry_after, zero=True)
        self.lease = as_duration("lease", lease)
        self.clock = clock
        self.store: Store = target if isinstance(target, Store) else open_store(os.fspath(target))
        self.composer = Composer(self.name, max_attempts=max_retries)

    def now(self) -> datetime | None:
        """The injected clock's time; None means that the database's clock decides."""
        return None if self.clock is None else self.clock.now()

    # ------------------------------------------------------------------ life

    def stop(self) -> None:
        """End every wait at once, with nothing; from here on nothing more is claimed. Reports still go through."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop, give back what nobody took, write down who was seen, and close the store if this queue opened it."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -------------------------------------------------------- publish, take

    async def publish(self, events: Sequence[NewEvent], *, connection: Any = None) -> list[Published]:
        """Store events that ``composer`` made, all or none; returns after the commit."""
        raise NotImplementedError

    async def take(
        self,
        worker: str,
        tags: str | Iterable[str] | None,
        *,
        limit: int = 1,
        lease: timedelta | float | None = None,
        wait: float = 0.0,
    ) -> list[Claim]:
        """Lease up to ``limit`` events with any of the tags (None: any event at all) to a worker, oldest first.

        When there is none, wait up to ``wait`` seconds for one; [] when the time is up or the queue was stopped.
        A caller that is cancelled gives its claims back uncharged.
        """
        raise NotImplementedError

    async def give_back(self, claims: Sequence[Claim]) -> None:
        """Claims whose worker never got the answer: ready again at once, no attempt charged."""
        raise NotImplementedError

    # --------------------------------------------------------------- report

    async def complete(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        execution_ms: int | None = None,
        status_code: int | None = None,
    ) -> Recorded:
        """The worker did its work. Raises EventNotFound, ClaimLost or AlreadyReported; then nothing has changed."""
        raise NotImplementedError

    async def fail(
        self,
        event_id: int,
        worker: str,
        *,
        fence: int | None = None,
        error: str | None = None,
        execution_ms: int | None = None,
        status_code: int | None = None,
    ) -> Recorded:
        """The attempt failed: tried again after ``retry_after``, or dead when it was the last one allowed.

        The last one is ``Recorded.final``. Raises EventNotFound, ClaimLost or AlreadyReported; then nothing has
        changed.
        """
        raise NotImplementedError

    async def complete_many(self, reports: Sequence[WorkReport]) -> list[Recorded | EventHubError]:
        """Many at once, in one write; each report has its own answer, in order, and errors are not raised."""
        raise NotImplementedError

    async def fail_many(self, reports: Sequence[WorkReport]) -> list[Recorded | EventHubError]:
        """Many at once, in one write; each report has its own answer, in order, and errors are not raised."""
        raise NotImplementedError

    async def start(
        self, event_id: int, worker: str, *, fence: int | None = None, lease: timedelta | float | None = None
    ) -> Lease:
        """The worker begins: the log says STARTED, and the lease counts from now. Raises EventNotFound or ClaimLost."""
        raise NotImplementedError

    async def heartbeat(
        self, event_id: int, worker: str, *, fence: int | None = None, lease: timedelta | float | None = None
    ) -> Lease:
        """The worker is still at it: the lease counts from now; nothing is logged. Raises EventNotFound or ClaimLost."""
        raise NotImplementedError

    async def release(self, event_id: int, worker: str, *, fence: int | None = None) -> None:
        """The worker gives the event back: ready at once, no attempt charged. Raises EventNotFound or ClaimLost."""
        raise NotImplementedError

    # -------------------------------------------------------------- operate

    async def reset(self, event_id: int, reason: str) -> None:
        """An operator takes an event away from its worker: PENDING at once, and the old claim is void.

        Raises EventNotFound, or NotProcessing when nobody is working on it.
        """
        raise NotImplementedError

    async def orphans(self, *, silent: timedelta | float = SILENT, limit: int = 100) -> list[Any]:
        """Events being worked on of which the log has said nothing for longer than ``silent``, the oldest first.

        list[eventhub.store.values.Orphan]. They stay with their workers until their leases end.
        """
        raise NotImplementedError

    async def workers(self, *, limit: int = 1000) -> list[WorkerState]:
        """Every worker that was ever seen, and whether it seems to be gone."""
        raise NotImplementedError
