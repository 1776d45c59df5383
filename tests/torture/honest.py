"""A long and honest history, made up: what processes would have written down, and the store they would have left.

    python -m tests.torture.honest 10000000        how long it takes to gather and judge so many records

Of ten events one is a broadcast with a key, one is work with a key, one needs a second attempt, and some die.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from eventhub.core.subscribers import Subscriber
from eventhub.store import open_store
from eventhub.testing.torture.checker import check
from eventhub.testing.torture.evidence import gather
from eventhub.testing.torture.history import Facts, Kind, Record, hash_of

EVENTS = 10
"""Of one call, one claim and one report."""
RECORDS = 85
"""For a call, from its beginning to the end of its last event, about."""
KEYS = 1000
PROCESSES = 8
SUBSCRIBER = 1
FIRST = 1000
LEASE = 60.0
SECOND = 1_000_000


class Scribe:
    """Writes the histories of some processes and the rows of the store, a call after the other."""

    def __init__(self, directory: Path, connection: apsw.Connection) -> None:
        self._files = [(directory / f"process-{number}.1.jsonl").open("wb") for number in range(PROCESSES)]
        self._connection = connection
        self._sql = _queries()
        self.records = 0
        self._ids, self._time = FIRST, 1000.0
        self._lines: list[bytes] = []
        self._calls = 0
        self._process = ""

    def _write(self, kind: Kind, op: str, items: list[Facts]) -> None:
        self._time += 0.0001
        for item in items:
            record = Record(
                process=self._process, call=self._calls, kind=kind, op=op, time=self._time, wall=self._time, **item
            )
            self._lines.append(msgspec.json.encode(record))
        self.records += len(items)

    def story(self, number: int) -> None:
        """Ten events from their publication to their end; message ids follow those of the events."""
        place = number % PROCESSES
        self._process = f"process-{place}.1"
        first, self._ids = self._ids, self._ids + 2 * EVENTS
        events = [_event(first + offset, f"{number}-{offset}", offset, number) for offset in range(EVENTS)]
        items = [self._published(event, number) for event in events]
        began = int(self._time * SECOND)
        self._call("publish", items, [{**item, "id": event["id"]} for item, event in zip(items, events, strict=True)])
        log = [(event["id"], event["id"], "PUBLISHED", None, None, None, None, None, began) for event in events]
        for event in events:
            log += self._attempts(event, first)
        fill = self._connection.executemany
        fill(self._sql["fill_events"], [(e["id"], 1, e["type"], e["text"], e["key"], began) for e in events])
        fill(self._sql["fill_log"], log)
        dead = [event for event in events if event["dies"]]
        fill(self._sql["fill_letter"], [(e["id"], 1, began, e["type"], e["text"], e["key"]) for e in dead])
        self._files[place].write(b"\n".join(self._lines) + b"\n")
        self._lines.clear()

    def _published(self, event: Facts, number: int) -> Facts:
        facts = {name: event[name] for name in ("token", "hash", "key")}
        return {**facts, "batch": f"call-{number}", "size": EVENTS, "limit": 3, "broadcast": event["broadcast"]}

    def _call(self, op: str, asked: list[Facts], answered: list[Facts]) -> None:
        self._calls += 1
        self._write("invoke", op, asked)
        self._write("ok", op, answered)

    def _attempts(self, event: Facts, first: int) -> Iterator[tuple[Any, ...]]:
        """Claimed, handled or received, and reported; one that is retried a second time."""
        delivery = event["id"] + EVENTS if event["broadcast"] else event["id"]
        subscriber = SUBSCRIBER if event["broadcast"] else None
        for fence in (1, 2) if event["retried"] else (1,):
            claim: Facts = {"id": delivery, "fence": fence}
            facts = {**claim, "attempt": fence, "key": event["key"], "hash": event["hash"]}
            at = int(self._time * SECOND)
            self._call(
                "claim", [{"worker": self._process}], [{**facts, "until": self._time + LEASE, "worker": self._process}]
            )
            yield event["id"], delivery, "PICKED", self._process, fence, fence, subscriber, None, at
            outcome = "Bury" if event["dies"] else "Retry" if event["retried"] and fence == 1 else "Complete"
            if event["broadcast"]:
                self._calls += 1
                arrived = {"id": delivery, "worker": "/a", "token": event["token"], "key": event["key"]}
                self._write("ok", "arrive", [{**arrived, "hash": event["hash"], "outcome": "200"}])
            else:
                result = {"Complete": "success", "Retry": "transient", "Bury": "permanent"}[outcome]
                self._call("handle", [{**facts, "token": event["token"]}], [{**facts, "outcome": result}])
            report = {**claim, "outcome": outcome}
            self._call("report", [report], [{**report, "accepted": True}])
            error = None if outcome == "Complete" else "never"
            action = "COMPLETED" if outcome == "Complete" else "FAILED"
            yield event["id"], delivery, action, self._process, fence, fence, None, error, at
            if outcome == "Bury":
                yield event["id"], delivery, "DEAD", self._process, fence, fence, None, "finalized", at

    def close(self) -> None:
        for file in self._files:
            file.close()


def _event(number: int, token: str, place: int, call: int) -> Facts:
    key = f"key-{call % KEYS}" if place in (0, 1) else None
    payload = {"token": token, "key": key}
    return {
        "id": number,
        "token": token,
        "key": key,
        "type": "hook.made" if place == 0 else "work.made",
        "text": msgspec.json.encode(payload).decode(),
        "hash": hash_of(payload),
        "broadcast": place == 0,
        "retried": place == 2,
        "dies": place == 3 and call % 10 == 0,
    }


def _queries() -> dict[str, str]:
    text = (Path(__file__).parent / "honest.sql").read_text()
    return {name: query for name, _, query in (part.partition("\n") for part in text.split("-- name: ")[1:])}


async def write(directory: Path, records: int) -> int:
    """Histories of about so many records, and ``hub.db``; returns how many there are."""
    file = directory / "hub.db"
    async with open_store(str(file)) as store:
        await store.check()
    with contextlib.closing(apsw.Connection(str(file))) as connection, connection:
        scribe = Scribe(directory, connection)
        subscriber = Subscriber(
            name="a", url="http://127.0.0.1:9999/a", event_type="hook.*", ordering_key="ordering_key"
        )
        connection.execute(_queries()["fill_route"])
        connection.execute(_queries()["fill_subscriber"], (SUBSCRIBER, msgspec.json.encode(subscriber).decode()))
        for number in range(records // RECORDS + 1):
            scribe.story(number)
        scribe.close()
    return scribe.records


def main(records: int) -> None:
    with tempfile.TemporaryDirectory(prefix="eventhub-honest-") as name:
        directory, evidence = Path(name), Path(name) / "evidence.db"
        began = time.monotonic()

        def say(words: str) -> None:
            sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {words}\n")
            sys.stdout.flush()

        say(f"{asyncio.run(write(directory, records)):,} records are written")
        asyncio.run(gather(directory, str(directory / "hub.db"), evidence))
        say(f"gathered: {evidence.stat().st_size >> 20:,} MiB")
        verdict = check(evidence, progress=say)
        for judged in verdict.judgements:
            say(f"{judged.number:3} {judged.name:20} {judged.seconds:6.1f} s  {judged.violations} violations")
        say(f"judged in {verdict.seconds:.0f} s, clean: {verdict.clean}; {verdict.figures}")
        say("\n".join(verdict.examples[:10]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
