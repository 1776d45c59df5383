"""Restoring: a day of the lake comes back into the database, under its old ids, as history that nobody works on.

First the log, then the events, each row once: whoever is interrupted leaves an event that is still read from the lake,
and can begin again. What comes back is known to be in the lake and is not copied again.
"""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eventhub.core.events import Action
from eventhub.errors import LakeMismatch
from eventhub.lake.gathering import gathered
from eventhub.lake.place import Lake
from eventhub.lake.reading import TableReader
from eventhub.pipeline.agreement import check_owner
from eventhub.pipeline.archiving import LOCK
from eventhub.pipeline.loading import load
from eventhub.pipeline.locking import hold
from eventhub.store import Store
from eventhub.store.ledger import DATASETS

__all__ = ["Restored", "restore"]

CHUNK_BYTES: Final = 64 << 20
_DECISIVE: Final = (Action.COMPLETED, Action.DEAD, Action.RETRIED)


class Restored(msgspec.Struct, frozen=True):
    """Rows that came back; ``present`` events were there already, ``dead`` ones are left to their letters."""

    day: date
    events: int
    log: int
    present: int
    dead: int


async def restore(store: Store, url: str, lake: Lake, day: date) -> Restored:
    """Bring the events of a day back, and all that happened to them."""
    async with hold(store, LOCK) as held:
        hub = await store.hub_id()
        for dataset in DATASETS:
            await asyncio.to_thread(check_owner, lake.dataset(dataset), f"{hub}/{dataset}")
        events, log = TableReader(lake.dataset("events")), TableReader(lake.dataset("event_log"))
        await asyncio.to_thread(events.refresh)
        if not events.has_copies_of(f"{hub}/events"):
            raise LakeMismatch(f"{lake.url} has no copies of this hub. Give the lake that the pipeline writes to.")
        total = Restored(day, 0, 0, 0, 0)
        chunks = gathered(events.batches(days=[day.isoformat()]), enough_bytes=CHUNK_BYTES)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            await held.confirm()
            total = _sum(total, await asyncio.to_thread(_restore, url, chunk, log, day))
        return total


def _restore(url: str, events: pa.Table, log: TableReader, day: date) -> Restored:
    ids = events["id"].combine_chunks()
    bounds = pc.min_max(ids)
    entries = log.rows(between={"event_id": (bounds["min"].as_py(), bounds["max"].as_py())})
    entries = entries.filter(pc.is_in(entries["event_id"], ids))
    dead = pa.array(sorted(_given_up(entries)), pa.int64())
    entries = entries.filter(pc.invert(pc.is_in(entries["event_id"], dead))).sort_by("id")
    events = events.filter(pc.invert(pc.is_in(events["id"], dead))).sort_by("id")
    rows = load(url, "event_log", entries.to_batches(), copied=True)
    came = load(url, "events", events.to_batches(), copied=True)
    return Restored(day, came, rows, events.num_rows - came, len(dead))


def _given_up(log: pa.Table) -> set[int]:
    """Events that were given up and never completed: in the dead letter queue, or deleted with their letters."""
    told = log.filter(pc.is_in(log["action"], pa.array([str(action) for action in _DECISIVE])))
    told = told.select(["id", "event_id", "delivery_id", "action"]).sort_by("id")
    completed: set[int] = set()
    given_up: dict[int, set[int]] = {}
    for event, delivery, action in zip(*(told[name].to_pylist() for name in told.column_names[1:]), strict=True):
        if action == Action.COMPLETED:
            completed.add(event)
        elif action == Action.DEAD:
            given_up.setdefault(event, set()).add(delivery)
        else:
            given_up.get(event, set()).discard(delivery)
    return {event for event, deliveries in given_up.items() if deliveries} - completed


def _sum(one: Restored, other: Restored) -> Restored:
    return Restored(
        one.day,
        one.events + other.events,
        one.log + other.log,
        one.present + other.present,
        one.dead + other.dead,
    )
