"""Histories for tests of facts and marts: rows of the log and events as the lake has them, told by hand or made up."""

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from eventhub.lake.datasets import schema_of
from eventhub.lake.files import write_day_files
from eventhub.lake.place import Lake
from eventhub.store.ledger import DATASETS, Dataset

BEGAN = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
LATE = 0.05
"""The share of rows that come behind some that were written after them."""
ENDS = {
    "PICKED COMPLETED": 40,
    "PICKED STARTED COMPLETED": 5,
    "PICKED FAILED": 20,
    "PICKED ABANDONED": 8,
    "PICKED RELEASED": 6,
    "PICKED RESET": 4,
    "PICKED FAILED DEAD": 6,
    "PICKED FAILED DEAD SKIPPED": 4,
    "PICKED DEAD RESET": 3,
    "PICKED": 4,
}
"""What an attempt writes, and how often."""
ERRORS = {"FAILED": "boom of '{0}'", "ABANDONED": "Abandoned: w did not report {0}", "DEAD": "retries_exhausted"}
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


class History:
    """Rows in the order in which they are written; their numbers are also their positions, unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Row] = []
        self.log: list[Row] = []

    def publish(self, event: int, seconds: float = 0, **about: Any) -> None:
        row = {"id": event, "type": "a", "payload": "{}", "queue": "work", "created_at": at(seconds)}
        self.events.append({**row, "position": len(self.events) + 1, **about})
        self.tell(event, "PUBLISHED", seconds)

    def tell(self, event: int, action: str, seconds: float, delivery: int | None = None, **about: Any) -> None:
        number = len(self.log) + 1
        row = {"id": number, "event_id": event, "delivery_id": event if delivery is None else delivery}
        self.log.append({**row, "action": action, "created_at": at(seconds), "position": number, **about})

    def attempt(self, event: int, fence: int, outcome: str, times: tuple[float, float], **about: Any) -> None:
        """Somebody takes it, and how that ends: picked and ended at these seconds."""
        claim = {"delivery": about.pop("delivery", None), "fence": fence, "attempt": about.pop("attempt", fence)}
        claim["worker"] = about.pop("worker", "w")
        self.tell(event, "PICKED", times[0], **claim, subscriber=about.pop("subscriber", None))
        claim["attempt"] -= outcome == "RELEASED"
        self.tell(event, outcome, times[1], **{**claim, **about})

    def bury(self, event: int, fence: int, seconds: float, **about: Any) -> None:
        about = {"fence": fence, "attempt": fence, "worker": "w", "error": "retries_exhausted", **about}
        self.tell(event, "DEAD", seconds, **about)


def batch(dataset: Dataset, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    schema = schema_of(dataset)
    full = [{**dict.fromkeys(schema.names), "day": row["created_at"].date(), **row} for row in rows]
    return pa.RecordBatch.from_pylist(full, schema=schema)


def fill(lake: Lake, history: History, *, after: int, upto: int, number: int) -> None:
    """Copy rows of the log from one position to below another, and all events that there are, once each."""
    chosen = {
        "event_log": [row for row in history.log if after <= row["position"] < upto],
        "events": history.events if number == 1 else [],
    }
    for dataset in DATASETS:
        table = lake.dataset(dataset)
        rows = chosen[dataset]
        entries = list(write_day_files([batch(dataset, rows)], *table.filesystem(), name="copy")) if rows else []
        table.commit(entries, source=dataset, number=number)


def made_up(seed: int, events: int) -> History:
    """Events of all kinds, interleaved, with all that can happen to them; some rows come late."""
    chance = random.Random(seed)
    history = History()
    lives = [_life(chance, event) for event in range(1, events + 1)]
    going: list[list[Row]] = []
    clock = 0.0
    while lives or going:
        clock += chance.expovariate(1 / 200)
        if lives and chance.random() < 0.3:
            going.append(lives.pop(0))
        if going:
            life = chance.choice(going)
            _happen(history, life.pop(0), clock)
            if not life:
                going.remove(life)
    for row in history.log[: len(history.log) * 2 // 5]:  # what follows comes as it was written, as it mostly does
        row["position"] += chance.randint(1, 60) * (chance.random() < LATE)
    return history


def _happen(history: History, step: Row, clock: float) -> None:
    if "about" in step:
        history.publish(step["event"], clock, **step["about"])
    else:
        history.tell(seconds=clock, **step)


def _life(chance: random.Random, event: int) -> list[Row]:
    about = {
        "type": chance.choice("aab") + ".made",
        "queue": chance.choice(["work", "mail"]),
        "tags": chance.choice([None, None, "red", "red, blue,red"]),
        "ordering_key": chance.choice([None, "k1", "k2"]),
    }
    kind = chance.choice(["work", "work", "work", "broadcast", "both", "nobody"])
    lives = [_delivery(chance, event, event, None)] if kind in ("work", "both") else []
    if kind in ("broadcast", "both"):
        lives += [_delivery(chance, event, event * 10 + 100_000 + number, 7 + number) for number in range(2)]
    if kind == "nobody":
        lives = [[{"event": event, "action": "COMPLETED", "attempt": 0}]]
    merged = []
    while lives := [life for life in lives if life]:
        merged.append(chance.choice(lives).pop(0))
    return [{"event": event, "about": about}, *merged]


def _delivery(chance: random.Random, event: int, delivery: int, subscriber: int | None) -> list[Row]:
    """All that happens to one delivery, until it is settled or left open."""
    steps: list[Row] = []
    claim: Row = {"event": event, "delivery": delivery, "fence": 0, "attempt": 0}

    def tell(action: str, **about: Any) -> None:
        whose = {"subscriber": subscriber} if action in ("PICKED", "CANCELLED") else {}
        steps.append({**claim, "action": action, **whose, **about})

    while True:
        before = chance.random()
        if before < 0.15:  # finalized or cancelled while nobody held it, or left open
            if before > 0.05:
                tell("CANCELLED" if subscriber else "COMPLETED", worker="anna" if subscriber else None)
            return steps
        claim = {**claim, "fence": claim["fence"] + 1, "attempt": claim["attempt"] + 1}
        end = chance.choices(list(ENDS), list(ENDS.values()))[0]
        worker = chance.choice(["ann", "bob"])
        for action in end.split():
            claim["attempt"] -= action == "RELEASED"
            error = ERRORS.get(action, "").format(delivery)
            tell(action, worker=worker, error=error.replace("boom", chance.choice(["boom", "bang"])) or None)
        if end.endswith(("COMPLETED", "PICKED", "SKIPPED")):
            return steps
        if "DEAD" in end:
            claim["attempt"] = 0
            tell("RETRIED", worker="anna")
