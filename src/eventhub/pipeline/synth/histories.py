"""Histories in parts: so many events with all that happened to them, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from eventhub.pipeline.synth.publishing import HOUR, Calendar, Numbers, event_columns, types_of
from eventhub.pipeline.synth.working import COMPLETED, LATEST, PUBLISHED, Deliveries, Entries, Work
from eventhub.pipeline.synth.world import QUEUES, TYPES

__all__ = ["History", "Plan", "histories"]

EVENTS_AT_ONCE: Final = 50_000
MOST_LIKELY: Final = 0.9
WORST_SUBSCRIBER: Final = 4.0
"""The last subscriber fails so much more often than others."""
INCIDENT_EVERY: Final = 47
INCIDENT: Final = 6.0
"""In one hour of so many, a queue fails so much more often."""

_WORKED_ON: Final = np.array([kind.wanted in ("work", "both") for kind in TYPES])
_BROADCAST: Final = np.array([kind.wanted in ("both", "broadcast") for kind in TYPES])
_FAILS: Final = np.array([kind.fails for kind in TYPES]) / 1.65
"""So that all in all it is the share that was asked for."""
_QUEUE: Final = np.array([QUEUES.index(kind.queue) for kind in TYPES])


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to make: so many events over so many days that end at ``until``, of which a share of attempts fails."""

    events: int
    until: datetime
    days: float = 7.0
    fail: float = 0.05
    seed: int = 0
    subscribers: tuple[int, ...] = ()


class History(msgspec.Struct, frozen=True):
    """Events and their log in the columns of the lake; ids of events and deliveries count from 0 to below ``ids``."""

    events: pa.RecordBatch
    entries: pa.RecordBatch
    ids: int
    dead: int


def histories(plan: Plan) -> Iterator[History]:
    """The parts in the order of time."""
    calendar = Calendar(plan.until - timedelta(microseconds=LATEST), plan.days)
    for first in range(0, plan.events, EVENTS_AT_ONCE):
        yield _history(plan, calendar, first, min(EVENTS_AT_ONCE, plan.events - first))


def _history(plan: Plan, calendar: Calendar, first: int, count: int) -> History:
    rng = np.random.default_rng([plan.seed, first])
    types = types_of(rng, count)
    times = calendar.times(rng.random(count), first, plan.events)
    events = event_columns(rng, types, times)
    chance = (plan.fail * _FAILS[types] * _incidents(types, times)).clip(max=MOST_LIKELY)
    places = np.arange(count, dtype=np.int64)
    everything = Deliveries(places, places, types, times, chance, np.full(count, -1))
    entries = Entries()
    entries.add(PUBLISHED, everything, times)
    messages = _messages(plan, everything)
    unwanted = ~_WORKED_ON[types]
    unwanted[messages.event] = False
    entries.add(COMPLETED, everything.only(unwanted), times[unwanted] + 1, attempt=0)
    work = Work(rng, entries, calendar)
    dead = work.settle(everything.only(_WORKED_ON[types])) + work.settle(messages)
    return History(events, entries.rows(), count + len(messages.id), dead)


def _incidents(types: Numbers, times: Numbers) -> Numbers:
    bad: Numbers = np.where((times // HOUR + _QUEUE[types] * 11) % INCIDENT_EVERY == 0, INCIDENT, 1.0)
    return bad


def _messages(plan: Plan, events: Deliveries) -> Deliveries:
    """A third of the subscribers want each type that is broadcast, and the same ones always."""
    found: list[Deliveries] = []
    for place, subscriber in enumerate(plan.subscribers):
        wanted = events.only(_BROADCAST[events.type] & ((events.type + place) % 3 == 0))
        wanted.subscriber = np.full(len(wanted.id), subscriber)
        if place == len(plan.subscribers) - 1:
            wanted.chance = (wanted.chance * WORST_SUBSCRIBER).clip(max=MOST_LIKELY)
        wanted.due = wanted.due + 20_000
        found.append(wanted)
    if not found:
        return events.only(np.zeros(len(events.id), dtype=bool))
    joined = _joined(found)
    joined.id = len(events.id) + np.arange(len(joined.id), dtype=np.int64)
    return joined


def _joined(parts: Sequence[Deliveries]) -> Deliveries:
    return Deliveries(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Deliveries.__struct_fields__)
    )
