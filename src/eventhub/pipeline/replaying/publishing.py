"""What a task of a replay does: old rows become new events, in their order, no faster than allowed.

As over HTTP: what was work is work again, in its own queue; what was broadcast goes to all who want it now; for one
subscriber it goes to that one alone, and nobody works on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.core.events import REPLAY_OF
from eventhub.core.matching import parse_tags
from eventhub.core.scopes import JOB
from eventhub.core.strict_json import decode, dump_metadata
from eventhub.errors import IdempotencyConflict, SettingsError
from eventhub.pipeline.source.database import open_shared
from eventhub.store.values import NewEvent, Published, Route

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "Order", "again", "key_prefix", "republish"]

COLUMNS: Final = (
    *("id", "type", "payload", "metadata", "tags", "title", "description"),
    *("ordering_key", "idempotency_key", "queue"),
)
BATCH: Final = 1000
SHORTEST: Final = 0.2
"""Seconds between two batches of a slow replay: so smooth is its rate."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What every task knows: where to publish, under which name, for whom, and the rules of the work over HTTP."""

    url: str
    name: str
    subscriber: int | None = None
    work_queue: str = "work"
    max_retries: int = 3


def key_prefix(name: str) -> str:
    """How the keys of all events of a replay begin; the old event's id follows."""
    return f"replay/{name}/"


def republish(batches: Iterable[pa.RecordBatch], order: Order, rate: float | None) -> tuple[int, int]:
    """Publish all rows of the batches; returns how many there were, and how many had been published before."""
    return asyncio.run(_republished(batches, order, rate))


async def _republished(batches: Iterable[pa.RecordBatch], order: Order, rate: float | None) -> tuple[int, int]:
    """While one batch is being stored the next is made ready; one at a time, so that their order is kept."""
    size = BATCH if rate is None else max(1, min(BATCH, int(rate * SHORTEST)))
    events = duplicates = 0
    began = time.monotonic()
    async with open_shared(order.url) as store:
        storing: asyncio.Task[Sequence[Published]] | None = None
        try:
            for rows in _chunks(batches, size):
                made = [again(row, order) for row in rows]
                if storing is not None:
                    duplicates += sum(one.duplicate for one in await storing)
                if rate is not None:
                    # What is there already costs nobody anything: only new events count.
                    await asyncio.sleep(max(began + (events - duplicates) / rate - time.monotonic(), 0))
                storing = asyncio.create_task(store.publish(made))
                await asyncio.sleep(0)  # let it reach the server
                events += len(made)
            if storing is not None:
                duplicates += sum(one.duplicate for one in await storing)
        except IdempotencyConflict as error:
            raise SettingsError(
                f"The replay {order.name!r} was begun otherwise, and an event of it is there already: {error} "
                "Run it with the same options, or under another name."
            ) from None
        finally:
            if storing is not None and not storing.done():
                storing.cancel()
    return events, duplicates


def again(row: dict[str, Any], order: Order) -> NewEvent:
    """The new event for an old one; its payload is the same text."""
    known = {} if row["metadata"] is None else decode(row["metadata"])
    made = NewEvent(
        type=row["type"],
        payload=row["payload"],
        route=Route(row["queue"], type=row["type"]),
        metadata=dump_metadata({**known, REPLAY_OF: str(row["id"])}),
        title=row["title"],
        description=row["description"],
        ordering_key=row["ordering_key"],
        idempotency_key=f"{key_prefix(order.name)}{row['id']}",
    )
    if order.subscriber is not None:
        made.work, made.broadcast, made.targets = False, True, (order.subscriber,)
        return made
    made.tags = row["tags"]
    made.route = Route(row["queue"], parse_tags(row["tags"], most=None), type=row["type"])
    if row["queue"] == order.work_queue:
        made.max_attempts = order.max_retries
        made.work = bool(made.route.tags)
        made.broadcast = row["type"] != JOB or not made.work
    return made


def _chunks(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[list[dict[str, Any]]]:
    for batch in batches:
        for first in range(0, batch.num_rows, size):
            yield batch.slice(first, size).to_pylist()
