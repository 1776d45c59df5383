"""Events that have left the database, read from the lake in milliseconds, as the hub itself would tell them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.core.events import Action, LogEntry, QueuedEvent, Status
from eventhub.errors import StoreUnavailable
from eventhub.lake.place import Lake
from eventhub.store.queries import load_queries
from eventhub.store.rows import to_log, to_queued

if TYPE_CHECKING:
    from eventhub.lake.reading import TableReader

__all__ = ["History", "Past", "to_past"]

SQL = load_queries("eventhub.lake")
THREADS: Final = 2
"""Reads at once: those who ask for more wait, and nobody else waits for them."""
_FACTS: Final = (
    *("id", "type", "payload", "metadata", "tags", "title", "description"),
    *("ordering_key", "idempotency_key", "created_at", "queue"),
)
_ENTRY: Final = (
    *("id", "event_id", "delivery_id", "action", "worker", "attempt", "fence", "status_code"),
    *("error", "execution_ms", "created_at", "subscriber"),
)
_FAILURES: Final = (Action.FAILED, Action.ABANDONED)


class Past(msgspec.Struct, frozen=True):
    """An event and everything that happened to it."""

    event: QueuedEvent
    log: list[LogEntry]


class History:
    """The archived events of one hub. Without a lake, or with one of another hub, there are none."""

    def __init__(self, url: str, hub: str) -> None:
        self._lake, self._hub = Lake(url), hub
        self._readers: tuple[TableReader, TableReader] | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="eventhub-lake")

    async def find(self, event_id: int) -> Past | None:
        """The event with that id, if the lake has it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.read, event_id)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def read(self, event_id: int) -> Past | None:
        """The same, for whoever has a thread of its own."""
        if "://" not in self._lake.url and not Path(self._lake.url, "events", "_delta_log").is_dir():
            return None
        try:
            from deltalake.exceptions import DeltaError
        except ImportError:  # the lake is an extra
            return None
        try:
            return self._read(event_id)
        except (OSError, DeltaError) as error:
            raise StoreUnavailable(
                f"The lake {self._lake.url} cannot be read ({error}). Check that it can be reached, then try again."
            ) from error

    def _read(self, event_id: int) -> Past | None:
        from eventhub.lake.reading import TableReader

        if self._readers is None:
            self._readers = TableReader(self._lake.dataset("events")), TableReader(self._lake.dataset("event_log"))
        events, log = self._readers
        events.refresh()
        if not events.has_copies_of(f"{self._hub}/events"):
            return None
        found = events.answer(SQL.past_event.format(number=int(event_id)))
        if not found:
            return None
        log.refresh()
        entries = log.answer(SQL.past_log.format(number=int(event_id)))
        # A lake that nothing was copied to since a column was added lacks it.
        facts = [found[0].get(name) for name in _FACTS]
        return to_past(facts, [[entry.get(name) for name in _ENTRY] for entry in entries])


def to_past(facts: Sequence[Any], entries: Sequence[Sequence[Any]]) -> Past:
    """An event that nothing is open of, from its facts and its log: status and counters follow from the log."""
    log = [to_log(entry, _same) for entry in entries]
    work = [entry for entry in log if entry.delivery_id == facts[0]]
    done = [entry.attempt or 0 for entry in work if entry.action is Action.COMPLETED]
    ends = [entry.attempt or 0 for entry in log if entry.action in (Action.COMPLETED, Action.CANCELLED)]
    deliveries = {entry.delivery_id: [e for e in log if e.delivery_id == entry.delivery_id] for entry in log}
    failures = {number: _failures(story) for number, story in deliveries.items()}
    dead = [number for number, story in deliveries.items() if _is_dead(story)]
    state = (
        facts[10],
        "",
        Status.FAILED if dead else "",
        any(entry.action is Action.COMPLETED for entry in log),
        max(done or ends, default=max((entry.attempt or 0 for entry in log), default=0)),
        len(failures.get(facts[0], ())) if done else max(map(len, failures.values()), default=0),
        None,
        None,
        None,
        msgspec.json.encode([entry.error or "" for number in dead for entry in failures[number]]).decode(),
        max((entry.created_at for entry in log), default=facts[9]),
    )
    return Past(to_queued((*facts[:10], *state), _same), log)


def _failures(story: Sequence[LogEntry]) -> list[LogEntry]:
    """Failed attempts of a delivery since it was last given a fresh start."""
    found: list[LogEntry] = []
    for entry in story:
        if entry.action is Action.RETRIED:
            found = []
        elif entry.action in _FAILURES:
            found.append(entry)
    return found


def _is_dead(story: Sequence[LogEntry]) -> bool:
    """Whether it was given up and stayed so; its letter was purged since."""
    last = [entry.action for entry in story if entry.action in (Action.DEAD, Action.RETRIED)]
    return bool(last) and last[-1] is Action.DEAD


def _same(moment: datetime) -> datetime:
    return moment
