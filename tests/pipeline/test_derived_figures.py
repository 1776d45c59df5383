"""What was really worked on, on both engines: the lake's figures are those of plain SQL on the database."""

import asyncio
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from pyspark.sql import SparkSession

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.lake.place import Lake
from eventhub.pipeline.deriving import DERIVED, update
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.messages import DeadFilter
from eventhub.store.values import Report
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, deliver, fail, send, take
from tests.pipeline.lake_support import OLD, copy

pytestmark = pytest.mark.timeout(300)

OUTCOMES: tuple[Outcome, ...] = (
    Complete(execution_ms=5),
    Retry("no 17", timedelta(seconds=30)),
    Complete(),
    Bury("broken 'a'"),
    Release(),
    Bury("broken 'b'"),
    Complete(),
)


def after(minutes: float) -> datetime:
    return OLD + timedelta(minutes=minutes)


async def live(store: Store) -> None:
    """Work and messages with all that can happen to them, over two days."""
    for number, queue in enumerate(("work", "mail")):
        events = [{"type": f"kind.{n % 3}", "payload": n, "tags": ["a", "b"][: n % 3]} for n in range(20)]
        await store.publish(Composer(queue, max_attempts=4).many(events), now=after(number))
    for minute in range(10, 1300, 150):
        for queue in ("work", "mail"):
            claims = await store.claim(
                queue, worker=f"w-{minute % 2}", lease=timedelta(minutes=9), limit=4, now=after(minute)
            )
            for place, claim in enumerate(claims[:3]):  # the fourth is abandoned
                outcome = OUTCOMES[(minute // 10 + place) % len(OUTCOMES)]
                await store.settle([Report(claim.held, outcome)], now=after(minute + 1 + place))
    letters = [letter.delivery_id for letter in (await store.dead_letters(DeadFilter(limit=100))).letters]
    await store.retry_dead(letters[::2], by="anna", now=after(1400))
    again = await store.claim("work", worker="w-2", lease=timedelta(minutes=9), limit=2, now=after(1500))
    await store.settle([Report(claim.held, Complete()) for claim in again], now=after(1501))
    await messages(store)


async def messages(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    numbers = await send(store, one, two, count=4, now=after(20))
    for place, claim in enumerate(await take(store, one, two, now=after(21))):
        if place % 4 < 3:
            await (deliver, fail, bury)[place % 4](store, claim, now=after(22))
    for number in numbers:
        await store.cancel_message(number, by="anna", now=after(23))  # those that are still open
    await send(store, now=after(24))  # nobody is there to be told


# ------------------------------------------------------------------- plain SQL

TYPES = """
SELECT e.type, g.action, count(*) FROM {hub}event_log g JOIN {hub}events e ON e.id = g.event_id
JOIN {hub}event_log p ON p.delivery_id = g.delivery_id AND p.fence = g.fence AND p.action = 'PICKED' AND p.id < g.id
WHERE g.action <> 'PICKED' AND g.action <> 'RETRIED' AND NOT EXISTS (
  SELECT 1 FROM {hub}event_log x
  WHERE x.delivery_id = g.delivery_id AND x.fence = g.fence AND x.id > p.id AND x.id < g.id)
GROUP BY e.type, g.action"""
DEAD = "SELECT type, reason, count(*) FROM {hub}dead_letters WHERE retried_at IS NULL GROUP BY type, reason"
COMPLETED = """
SELECT ({done} - {published}) / 1000 FROM {hub}event_log g JOIN {hub}events e ON e.id = g.event_id
WHERE g.action = 'COMPLETED' AND g.fence IS NOT NULL ORDER BY 1"""
OPEN = """
SELECT r.queue, count(*) FROM {hub}deliveries d JOIN {hub}routes r ON r.id = d.route
WHERE d.subscriber IS NULL AND d.state <> 4 GROUP BY r.queue"""
PUBLISHED = "SELECT e.type, {published} / 3600000000, count(*) FROM {hub}events e GROUP BY 1, 2"
LOST = "SELECT g.worker, {done} / 3600000000, count(*) FROM {hub}event_log g WHERE g.action = 'ABANDONED' GROUP BY 1, 2"
TAKEN = """
SELECT subscriber, count(*) FROM {hub}event_log
WHERE action = 'PICKED' AND subscriber IS NOT NULL GROUP BY subscriber"""


def asked(url: str, question: str) -> list[tuple[Any, ...]]:
    """The answer of the database itself; times are microseconds since 1970."""
    if url.startswith("sqlite"):
        told = question.format(hub="eventhub_", done="g.created_at", published="e.created_at")
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            return connection.execute(told).fetchall()

    async def ask() -> list[tuple[Any, ...]]:
        micros = "(extract(epoch FROM {}) * 1000000)::bigint"
        told = question.format(
            hub="eventhub.", done=micros.format("g.created_at"), published=micros.format("e.created_at")
        )
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(told)]
        finally:
            await connection.close()

    return asyncio.run(ask())


# ------------------------------------------------------------------------ test


def test_the_figures_of_the_lake_are_those_of_the_database(spark: SparkSession, store_url: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))

    async def work() -> int:
        async with open_store(store_url) as store:
            await live(store)
            await copy(store, lake)
            return (await store.lake_commits("event_log"))[0].last

    update(spark, lake, source="hub", upto=asyncio.run(work()))

    def rows(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = lake.derived(path, DERIVED[path]).open().to_pyarrow_table().to_pylist()
        return found

    def hours(dimension: str, count: str) -> list[tuple[Any, ...]]:
        named = [row for row in rows("marts/hourly") if row["dimension"] == dimension and row[count]]
        return sorted((row["name"], int(row["hour"].timestamp()) // 3600, row[count]) for row in named)

    attempts, deliveries = rows("facts/attempts"), rows("facts/deliveries")
    counted = Counter((row["type"], row["outcome"]) for row in attempts)
    assert dict(counted) == {(kind, outcome): count for kind, outcome, count in asked(store_url, TYPES)}
    assert set(map(itemgetter(1), counted)) >= {"COMPLETED", "FAILED", "ABANDONED", "RELEASED", "CANCELLED"}
    dead = [row for row in deliveries if row["outcome"] == "DEAD"]
    assert sorted(Counter((row["type"], row["reason"]) for row in dead).items()) == sorted(
        ((kind, reason), count) for kind, reason, count in asked(store_url, DEAD) if reason != "cancelled"
    )
    cancelled = [row for row in deliveries if row["outcome"] == "CANCELLED"]
    assert len(cancelled) == sum(count for _, reason, count in asked(store_url, DEAD) if reason == "cancelled") > 0
    assert sum(row["dead"] for row in rows("marts/dead_triage")) == len(dead) > 4
    took = [each for (each,) in asked(store_url, COMPLETED)]
    assert sorted(row["total_ms"] for row in deliveries if row["outcome"] == "COMPLETED") == took
    last = {row["queue"]: row["depth"] for row in sorted(rows("marts/queue_depth"), key=itemgetter("hour"))}
    assert sorted((queue, depth) for queue, depth in last.items() if depth) == sorted(asked(store_url, OPEN))
    assert hours("type", "published") == sorted(asked(store_url, PUBLISHED))
    assert hours("worker", "abandoned") == sorted(asked(store_url, LOST))
    days = [row for row in rows("marts/daily") if row["dimension"] == "subscriber"]
    taken = {
        (name, sum(row["attempts"] for row in days if row["name"] == name)) for name in {row["name"] for row in days}
    }
    assert taken == {(str(number), count) for number, count in asked(store_url, TAKEN)}
    for row in rows("marts/daily"):
        if row["dimension"] == "all":
            same = sorted(d["total_ms"] for d in deliveries if d["outcome"] == "COMPLETED" and d["day"] == row["day"])
            expected = [same[ceil(share * len(same)) - 1] for share in (0.5, 0.9, 0.99)] if same else [None] * 3
            assert [row["latency_p50"], row["latency_p90"], row["latency_p99"]] == expected
