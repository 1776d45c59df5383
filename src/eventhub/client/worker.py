"""The worker: takes events from a hub over HTTP, runs a handler for each, and reports how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from itertools import count
from typing import Final, Self

from eventhub.client.api import Client
from eventhub.client.performing import HandlerFunction, Performer
from eventhub.client.working import Run, WorkerNumbers, WorkerSettings
from eventhub.core.matching import MAX_WANTED_TAGS, parse_tags
from eventhub.errors import SettingsError
from eventhub.handling.limits import HANDLER_LIMIT, limit_of

__all__ = ["Worker", "new_worker_id"]

LONGEST_WAIT: Final = 60.0
LONGEST_ID: Final = 200
MOST_AT_ONCE: Final = 1000
_numbers = count(1)


class Worker:
    """Runs ``handler`` for events with any of ``tags``, up to ``concurrency`` at a time.

    The handler gets a ClaimedEvent and returns ``Success()`` or None, or ``TransientError(source, message)`` or
    ``PermanentError(source, message)``, or raises; only a PermanentError is not retried. Plain functions run in
    threads. While a handler runs, its lease is extended; when the claim is lost all the same, the handler is cancelled
    and what it returns does not count. A hub that is away is asked again for ever, with jitter.

    - ``lease``: seconds, or a timedelta, after which the hub gives an event to others if this process dies.
    - ``batch``: the most events taken at once; ``wait``: seconds that the hub may hold a request when it has none.
    - ``handler_timeout``: seconds, or a timedelta, after which a handler has failed: 15 minutes unless it is said
      otherwise, None for no limit. Its lease is not extended any longer.
    - ``shutdown_timeout``: seconds that handlers may go on after ``stop``; what is left then is given back, uncharged.
    """

    def __init__(
        self,
        url: str,
        tags: str | Iterable[str],
        handler: HandlerFunction,
        *,
        key: str | None = None,
        concurrency: int = 10,
        lease: float | timedelta = 300.0,
        worker_id: str | None = None,
        batch: int = 100,
        wait: float = 20.0,
        shutdown_timeout: float = 30.0,
        timeout: float = 30.0,
        handler_timeout: float | timedelta | None = HANDLER_LIMIT,
    ) -> None:
        limit = limit_of("The worker's handler", handler_timeout)
        seconds = lease.total_seconds() if isinstance(lease, timedelta) else lease
        wanted = ",".join(parse_tags(tags, most=MAX_WANTED_TAGS))
        self.worker_id = new_worker_id() if worker_id is None else worker_id
        for name, value, good in (
            ("tags", tags, bool(wanted)),
            ("concurrency", concurrency, concurrency >= 1),
            ("lease", lease, seconds >= 1),
            ("worker_id", worker_id, 0 < len(self.worker_id) <= LONGEST_ID),
            ("batch", batch, 1 <= batch <= MOST_AT_ONCE),
            ("wait", wait, 0 <= wait <= LONGEST_WAIT),
            ("shutdown_timeout", shutdown_timeout, shutdown_timeout >= 0),
        ):
            if not good:
                raise SettingsError(f"{name} is {value!r}; {_REMEDIES[name]}.")
        self.numbers = WorkerNumbers()
        self._address = url, key, timeout
        self._client()  # what is wrong with the address or the key is said here
        self._perform = Performer(handler, self.worker_id, limit)
        self._settings = WorkerSettings(
            tags=wanted,
            worker_id=self.worker_id,
            concurrency=concurrency,
            lease=seconds,
            batch=batch,
            wait=wait,
            shutdown_timeout=shutdown_timeout,
            handler_timeout=limit.seconds,
        )
        self._run: Run | None = None
        self._background: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"Worker({self._address[0]!r}, {self._settings.tags!r}, worker_id={self.worker_id!r})"

    def _client(self, most: float | None = None) -> Client:
        url, key, timeout = self._address
        return Client(url, key=key, timeout=timeout if most is None else min(timeout, most), retries=False)

    # ------------------------------------------------------------------ life

    async def run(self, *, signals: bool = True) -> None:
        """Work until ``stop``, cancellation or, with ``signals`` and in the main thread, SIGTERM or SIGINT.

        Then nothing more is taken, handlers get the ``shutdown_timeout`` to end, and what they leave is given back. A
        second signal gives them no more time. Raises what the hub says when it refuses this worker from the start.
        """
        if self._run is not None:
            raise RuntimeError("This worker runs already; make another one to run twice.")
        self._run = Run(self._client, self._perform, self._settings, self.numbers)
        try:
            with _stopped_by_signals(self._run) if signals else nullcontext():
                await self._run.go()
        finally:
            self._run = None

    @property
    def running(self) -> bool:
        return self._run is not None

    def stop(self) -> None:
        """Ask a running worker to end; a second time: at once. Harmless when it does not run."""
        if self._run is not None:
            self._run.stop()

    async def __aenter__(self) -> Self:
        """Work in the background for the length of the block."""
        self._background = asyncio.create_task(self.run(signals=False), name="eventhub-worker")
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        background, self._background = self._background, None
        if background is not None:
            await background


_REMEDIES: Final = {
    "tags": "name at least one tag",
    "concurrency": "give 1 or more",
    "lease": "give seconds, 1 or more",
    "worker_id": f"give 1 to {LONGEST_ID} characters",
    "batch": f"give 1 to {MOST_AT_ONCE:,}",
    "wait": f"give 0 to {LONGEST_WAIT:.0f} seconds",
    "shutdown_timeout": "give seconds, 0 or more",
}


def new_worker_id() -> str:
    """``host:pid``, as the hub's users know it; a second worker of a process gets a number."""
    number = next(_numbers)
    name = f"{socket.gethostname()}:{os.getpid()}"
    return name if number == 1 else f"{name}:{number}"


@contextmanager
def _stopped_by_signals(run: Run) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    taken = []
    for number in before:
        with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread: others see to it
            loop.add_signal_handler(number, run.stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
