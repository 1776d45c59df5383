"""What happened to deliveries, all at once: attempts with waits, failures and backoff, until each is settled.

PICKED ─┬─▶ COMPLETED
        ├─▶ FAILED ─ backoff ─▶ PICKED … or, the last time, ─▶ DEAD ─ some, hours later ─▶ RETRIED ─▶ PICKED …
        ├─▶ ABANDONED (its worker was lost) ─▶ PICKED … or DEAD
        └─▶ RELEASED (it was not the worker's time) ─▶ PICKED
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from eventhub.core.lifecycle import Reason
from eventhub.pipeline.synth.publishing import HOUR, Calendar, Numbers, picked_from
from eventhub.pipeline.synth.world import (
    DISPATCHERS,
    EACH,
    ERRORS,
    KINDS_OF_ERRORS,
    QUEUES,
    REPLACED,
    TYPES,
    WEB_ERRORS,
    WORKERS_EACH,
    workers_of,
)

__all__ = ["COMPLETED", "LATEST", "PUBLISHED", "Deliveries", "Entries", "Work"]

ACTIONS: Final = ("PUBLISHED", "PICKED", "STARTED", "COMPLETED", "FAILED", "ABANDONED", "RELEASED", "DEAD", "RETRIED")
PUBLISHED, PICKED, STARTED, COMPLETED, FAILED, ABANDONED, RELEASED, DEAD, RETRIED = range(len(ACTIONS))
MOST_ATTEMPTS: Final = 4
BACKOFF: Final = np.array([0, 5_000_000, 30_000_000, 300_000_000])
LEASE: Final = 30_000_000
LATEST: Final = HOUR
"""So long before the end nothing is published or retried any more: all of it is to be settled by then."""
_LOST: Final = 0.003
_RELEASED: Final = 0.001
_POISON: Final = 0.12
"""Of what fails, this much can never succeed."""
_SECOND_CHANCE: Final = 0.3
_STILL_BAD: Final = 0.2
_OTHER_WAY: Final = 0.25
_STARTING_QUEUE: Final = QUEUES.index("reports")
_NOBODY: Final = -1

_WORKERS: Final = tuple(name for queue in QUEUES for name in workers_of(queue))
NAMES: Final = (*_WORKERS, *DISPATCHERS, "operator")
_OPERATOR: Final = len(NAMES) - 1
_FIRST_DISPATCHER: Final = len(_WORKERS)
TEXTS: Final = (
    *ERRORS,
    *(text for _, text in WEB_ERRORS),
    *(f"Abandoned: {name} did not report before its lease ended." for name in NAMES),
    str(Reason.EXHAUSTED),
    str(Reason.WORKER_LOST),
)
_WEB: Final = len(ERRORS)
_GONE: Final = _WEB + len(WEB_ERRORS)
_EXHAUSTED: Final = _GONE + len(NAMES)
_STATUSES: Final = np.array([status or _NOBODY for status, _ in WEB_ERRORS])

_QUEUE_OF: Final = np.array([QUEUES.index(kind.queue) for kind in TYPES])
_MEDIAN: Final = np.array([kind.median_ms for kind in TYPES], dtype=np.float64)


class Deliveries(msgspec.Struct):
    """Deliveries that are to be worked on: parallel columns. ``subscriber`` is -1 for work."""

    id: Numbers
    event: Numbers
    type: Numbers
    due: Numbers
    chance: Numbers
    subscriber: Numbers

    def only(self, places: Numbers) -> Deliveries:
        return Deliveries(*(getattr(self, name)[places] for name in self.__struct_fields__))


class Ended(NamedTuple):
    """How attempts ended: when, when the next would be due, and which of them how."""

    at: Numbers
    next_due: Numbers
    released: Numbers
    dies: Numbers
    goes_on: Numbers


class Entries:
    """The log as it grows, in columns."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Numbers]] = []

    def add(self, action: int, deliveries: Deliveries, times: Numbers, **more: Any) -> None:
        count = len(times)
        part = {"event": deliveries.event, "delivery": deliveries.id, "action": action, "time": times}
        part |= {"worker": _NOBODY, "attempt": _NOBODY, "fence": _NOBODY, "status": _NOBODY, "error": _NOBODY}
        part |= {"ms": _NOBODY, "subscriber": _NOBODY} | more
        self._parts.append({name: np.broadcast_to(np.asarray(value), count) for name, value in part.items()})

    def rows(self) -> pa.RecordBatch:
        """In the order of time; what happened to a delivery at one moment stays in its order."""
        whole = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        order = np.argsort(whole["time"], kind="stable")
        sorted_ = {name: column[order] for name, column in whole.items()}
        said = {
            "id": pa.array(np.arange(len(order), dtype=np.int64)),
            "event_id": pa.array(sorted_["event"]),
            "delivery_id": pa.array(sorted_["delivery"]),
            "action": picked_from(ACTIONS, sorted_["action"]),
            "worker": _text(NAMES, sorted_["worker"]),
            **{name: _number(sorted_[name]) for name in ("attempt", "fence")},
            "status_code": _number(sorted_["status"]),
            "error": _text(TEXTS, sorted_["error"]),
            "execution_ms": _number(sorted_["ms"]),
            "created_at": pa.array(sorted_["time"]).cast(pa.timestamp("us", tz="UTC")),
            "subscriber": pa.array(sorted_["subscriber"], mask=sorted_["subscriber"] == _NOBODY).cast(pa.int64()),
        }
        return pa.RecordBatch.from_arrays(list(said.values()), names=list(said))


def _text(values: tuple[str, ...], places: Numbers) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(places, mask=places == _NOBODY))


def _number(values: Numbers) -> pa.Array:
    return pa.array(values.astype(np.int32), mask=values == _NOBODY)


class Work:
    """Works on deliveries and writes down what happens."""

    def __init__(self, rng: np.random.Generator, entries: Entries, calendar: Calendar) -> None:
        self._rng, self._entries, self._calendar = rng, entries, calendar

    def settle(self, deliveries: Deliveries) -> int:
        """Settle them all; returns how many are dead at the end."""
        rng, count = self._rng, len(deliveries.due)
        poisoned = rng.random(count) < deliveries.chance * _POISON
        dead, died, fences = self._try(deliveries, poisoned, np.zeros(count, dtype=np.int64))
        later = died + (rng.uniform(0.5, 12, len(died)) * HOUR).astype(np.int64)
        again = (rng.random(len(died)) < _SECOND_CHANCE) & (later < self._calendar.until)
        chosen, later = dead[again], later[again]
        if not len(chosen):
            return len(dead)
        retried = deliveries.only(chosen)
        retried.due = later
        self._entries.add(RETRIED, retried, later, worker=_OPERATOR, attempt=0, fence=fences[chosen])
        dead_again, _, _ = self._try(retried, rng.random(len(chosen)) < _STILL_BAD, fences[chosen])
        return len(dead) - len(chosen) + len(dead_again)

    def _try(self, deliveries: Deliveries, poisoned: Numbers, fences: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Attempts until each has completed or is dead; which are dead, since when, and all fences."""
        fences, attempts = fences.copy(), np.zeros(len(fences), dtype=np.int64)
        open_, due = np.arange(len(fences)), deliveries.due.copy()
        dead, died = [open_[:0]], [due[:0]]
        while len(open_):
            attempts[open_] += 1
            fences[open_] += 1
            now = deliveries.only(open_)
            now.due = due[open_]
            now.chance = np.where(poisoned[open_], 1.0, now.chance)
            ended = self._attempt(now, attempts[open_], fences[open_])
            dead.append(open_[ended.dies])
            died.append(ended.at[ended.dies])
            attempts[open_[ended.released]] -= 1
            due[open_] = ended.next_due
            open_ = open_[ended.goes_on]
        return np.concatenate(dead), np.concatenate(died), fences

    def _attempt(self, now: Deliveries, attempts: Numbers, fences: Numbers) -> Ended:
        """One attempt at each."""
        rng, count = self._rng, len(now.id)
        picked = now.due + _waits(rng, count)
        made = {"attempt": attempts, "fence": fences, "worker": _workers(rng, now, self._calendar.fraction(picked))}
        self._entries.add(PICKED, now, picked, subscriber=now.subscriber, **made)
        self._start(now, picked, made)
        milliseconds = np.maximum(_MEDIAN[now.type] * rng.lognormal(0, 0.7, count), 1).astype(np.int64)
        roll = rng.random(count)
        released = roll < np.where(fences == 1, _RELEASED, 0.0)
        lost = ~released & (roll < _RELEASED + _LOST)
        failed = ~released & ~lost & (roll < _RELEASED + _LOST + now.chance)
        at = picked + np.where(lost, LEASE, milliseconds * 1000 + rng.integers(0, 900, count))
        dies = (failed | lost) & (attempts >= MOST_ATTEMPTS)
        status, error = _failures(rng, now)
        answered = np.where(now.subscriber == _NOBODY, _NOBODY, 200)
        self._end(COMPLETED, now, ~(released | lost | failed), time=at, ms=milliseconds, status=answered, **made)
        self._end(RELEASED, now, released, time=at, **made | {"attempt": attempts - 1})
        self._end(ABANDONED, now, lost, time=at, error=_GONE + made["worker"], **made)
        self._end(FAILED, now, failed, time=at, ms=milliseconds, status=status, error=error, **made)
        self._end(DEAD, now, dies, time=at, error=np.where(lost, _EXHAUSTED + 1, _EXHAUSTED), **made)
        wait = np.where(failed, BACKOFF[attempts.clip(max=MOST_ATTEMPTS - 1)], 0) * rng.uniform(0.9, 1.1, count)
        return Ended(at, at + wait.astype(np.int64), released, dies, (released | lost | failed) & ~dies)

    def _start(self, now: Deliveries, picked: Numbers, made: dict[str, Numbers]) -> None:
        """Workers of one queue say when they begin."""
        begins = (_QUEUE_OF[now.type] == _STARTING_QUEUE) & (now.subscriber == _NOBODY)
        self._end(STARTED, now, begins, time=picked + 500, **made)

    def _end(self, action: int, now: Deliveries, which: Numbers, *, time: Numbers, **more: Numbers) -> None:
        if which.any():
            chosen = {name: column[which] for name, column in more.items()}
            self._entries.add(action, now.only(which), time[which], **chosen)


def _waits(rng: np.random.Generator, count: int) -> Numbers:
    """Mostly some hundredths of a second, sometimes many."""
    waits: Numbers = (40_000 * rng.lognormal(0, 1.1, count)).astype(np.int64) + 1
    return waits


def _workers(rng: np.random.Generator, deliveries: Deliveries, fraction: Numbers) -> Numbers:
    """One of its queue, who is there at the time; messages are sent by dispatchers."""
    chosen = rng.integers(WORKERS_EACH, size=len(fraction))
    chosen = np.where((chosen < REPLACED) & (fraction > 2 / 3), chosen + WORKERS_EACH, chosen)
    of_queue = _QUEUE_OF[deliveries.type] * (WORKERS_EACH + REPLACED) + chosen
    of_hub = _FIRST_DISPATCHER + chosen % len(DISPATCHERS)
    found: Numbers = np.where(deliveries.subscriber == _NOBODY, of_queue, of_hub)
    return found


def _failures(rng: np.random.Generator, now: Deliveries) -> tuple[Numbers, Numbers]:
    """Statuses and errors, as it would fail; each type fails in two ways of its own, one the commoner."""
    count = len(now.type)
    kind = (now.type * 3 + (rng.random(count) < _OTHER_WAY)) % KINDS_OF_ERRORS
    web = np.minimum(rng.integers(len(WEB_ERRORS) + 3, size=count), len(WEB_ERRORS) - 1)
    is_work = now.subscriber == _NOBODY
    error = np.where(is_work, kind * EACH + rng.integers(EACH, size=count), _WEB + web)
    return np.where(is_work, _NOBODY, _STATUSES[web]), error
