"""The whole way of events: published, worked on, copied, told in facts and marts, archived, read back, replayed."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import asyncpg
import msgspec

from eventhub import EventManager, EventQueue, PermanentError
from eventhub.core.events import QueuedEvent
from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.lake.history import History
from eventhub.lake.place import Lake
from eventhub.pipeline.archiving import archive
from eventhub.pipeline.deriving import DERIVED
from eventhub.pipeline.frames import frame
from eventhub.pipeline.replaying import Chosen, Order, replay
from eventhub.pipeline.running import Pipeline
from eventhub.store import Store, open_store
from eventhub.store.messages import DeadFilter
from eventhub.store.values import EventFilter
from tests.hub.conftest import SECRET
from tests.hub.receiver import Arrival, Receiver
from tests.pipeline.lake_support import Silent, copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("order.placed", "order.paid", "order.shipped")
WORK, BROADCASTS = 150, 40


# ------------------------------------------------------------------ the history


async def work(url: str) -> None:
    """Some events fail at first, some for good; of the dead, some are retried and get through then."""
    chance, failed = random.Random(5), set[int]()
    async with EventQueue(url, queue="orders", max_attempts=3, retry_after=0.0) as queue:
        manager = EventManager(queue)
        mended = False

        @manager.on("order.*")
        async def handle(event: QueuedEvent) -> PermanentError | None:
            number = event.payload["n"]
            if number % 10 == 3 and not mended:
                return PermanentError("handle", f"order {number} cannot be read")
            if number % 7 == 2 and number not in failed:
                failed.add(number)
                raise ConnectionError(f"no answer from 10.0.0.{number}")
            return None

        for number in range(WORK):
            key = f"customer-{chance.randrange(9)}" if number % 2 else None
            await queue.publish(KINDS[number % 3], {"n": number, "text": "é" * (number % 5)}, ordering_key=key)
        await manager.run_until_empty()
        mended = True
        dead = (await queue.store.dead_letters(DeadFilter(limit=1000))).letters
        assert len(dead) == WORK // 10
        await queue.store.retry_dead([letter.delivery_id for letter in dead[::2]], by="operator")
        await manager.run_until_empty()


async def broadcast(url: str) -> None:
    """One consumer refuses some messages, another fails now and then."""

    def behave(arrival: Arrival) -> int:
        if arrival.path == "/strict" and arrival.data["n"] % 8 == 0:
            return 422
        return 503 if arrival.data["n"] % 5 == 1 and arrival.turn == 1 else 204

    async with Receiver(behave) as receiver, Hub(url, secret=SECRET, allow_private=["127.0.0.0/8"]) as hub:
        for name in ("strict", "kind"):
            where = receiver.url.replace("/hook", f"/{name}")
            await hub.subscribers.create(Subscriber(name=name, url=where, retry_backoff_seconds=(0.0, 0.0)))
        events = [{"type": "stock.changed", "payload": {"n": number}} for number in range(BROADCASTS)]
        await hub.publish_many(events)
        async with asyncio.timeout(60):
            while await _open_deliveries(hub.store):  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(0.02)


async def _open_deliveries(store: Store) -> int:
    waiting, _ = await store.fanout_waiting(1)  # first: what is handed out meanwhile is seen below
    stats = [await store.subscriber_stats(row.id) for row in (await store.subscribers())[1]]
    return waiting + sum(one.pending + one.processing for one in stats)


# ------------------------------------------------- what plain SQL says about it

FIGURES = {
    "published": "SELECT e.type, count(*) FROM {events} e GROUP BY e.type",
    "succeeded": "SELECT e.type, count(*) FROM {log} g JOIN {events} e ON e.id = g.event_id "
    "WHERE g.action = 'COMPLETED' AND g.fence > 0 GROUP BY e.type",
    "failed": "SELECT e.type, count(*) FROM {log} g JOIN {events} e ON e.id = g.event_id "
    "WHERE g.action = 'FAILED' AND g.fence > 0 GROUP BY e.type",
    "dead": "SELECT e.type, count(*) FROM {dead} d JOIN {events} e ON e.id = d.event_id "
    "WHERE d.retried_at IS NULL GROUP BY e.type",
    "completed": "SELECT e.type, count(DISTINCT g.delivery_id) FROM {log} g JOIN {events} e ON e.id = g.event_id "
    "WHERE g.action = 'COMPLETED' AND g.fence > 0 GROUP BY e.type",
}


async def asked(url: str) -> dict[str, dict[str, int]]:
    """The figures by type, from the hub's own tables."""
    names = ("events", "event_log", "dead_letters")
    if url.startswith("sqlite"):
        tables = dict(zip(("events", "log", "dead"), (f"eventhub_{name}" for name in names), strict=True))
        direct = apsw.Connection(url.removeprefix("sqlite:///"))
        found: dict[str, Any] = {
            figure: direct.execute(text.format(**tables)).fetchall() for figure, text in FIGURES.items()
        }
        direct.close()
    else:
        tables = dict(zip(("events", "log", "dead"), (f"eventhub.{name}" for name in names), strict=True))
        connection = await asyncpg.connect(url)
        found = {figure: await connection.fetch(text.format(**tables)) for figure, text in FIGURES.items()}
        await connection.close()
    return {figure: {row[0]: row[1] for row in rows} for figure, rows in found.items()}


def told(spark: "SparkSession", lake: Lake) -> dict[str, dict[str, int]]:
    """The same figures, from the marts."""
    hourly = frame(spark, lake.derived("marts/hourly", DERIVED["marts/hourly"])).where("dimension = 'type'")
    sums = {row["name"]: row for row in hourly.groupBy("name").sum(*FIGURES).collect()}
    return {
        figure: {name: row[f"sum({figure})"] for name, row in sums.items() if row[f"sum({figure})"]}
        for figure in FIGURES
    }


# --------------------------------------------------------------------- the way


def payloads(events: list[Any]) -> Counter[bytes]:
    return Counter(msgspec.json.encode(event.payload, order="deterministic") for event in events)


def test_events_go_the_whole_way(spark: "SparkSession", store_url: str, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # somebody's own settings; days are those of UTC
    asyncio.run(_whole_way(spark, store_url, Lake(str(tmp_path / "lake"))))
    spark.conf.set("spark.sql.session.timeZone", "UTC")


async def _whole_way(spark: "SparkSession", url: str, lake: Lake) -> None:
    await work(url)
    await broadcast(url)
    async with open_store(url) as store:
        await copy(store, lake)  # all of it: a transaction elsewhere may hold a run back for a moment
        pipeline = Pipeline(store, lake, spark=lambda: spark, teller=Silent())
        assert (await pipeline.once()).finished
        figures = await asked(url)
        assert sum(figures["published"].values()) >= WORK + BROADCASTS
        assert figures["failed"]
        assert figures["dead"]
        assert await asyncio.to_thread(told, spark, lake) == figures
        hours = lake.derived("marts/hourly", DERIVED["marts/hourly"]).open().to_pyarrow_table(columns=["hour", "day"])
        assert [row["hour"].date() for row in hours.to_pylist()] == hours["day"].to_pylist()
        assert (await pipeline.once()).rows == 0, "there is nothing new"

        before = {event.id: event for event in await store.events(EventFilter(limit=10_000))}
        dead = {letter.id for letter in (await store.dead_letters(DeadFilter(limit=1000))).letters}
        tomorrow = await store.now() + timedelta(days=2)
        days = [day async for day in archive(store, url, lake, before=tomorrow)]
        assert [day.trouble for day in days] == [None] * len(days)
        left = {event.id for event in await store.events(EventFilter(limit=10_000))}
        assert left == dead, "what can still be retried stays"
        history = History(lake.url, await store.hub_id())
        for number, event in list(before.items())[::23]:
            past = await history.find(number)
            assert past is not None
            assert (past.event.payload, past.event.type) == (event.payload, event.type)
            assert past.log[0].action == "PUBLISHED"
        history.close()

        gone = [event for number, event in before.items() if number not in dead and event.type in KINDS]
        where = f"id NOT IN ({','.join(map(str, dead))})"
        order = Order(url=url, name="again", work_queue="work", max_retries=3)
        chosen = Chosen(types=KINDS, where=where)
        done = await asyncio.to_thread(replay, spark, lake, chosen, order)
        assert (done.events, done.duplicates) == (len(gone), 0)
        done = await asyncio.to_thread(replay, spark, lake, chosen, order)
        assert (done.events, done.duplicates) == (len(gone), len(gone)), "a second time, nothing is published"
        found = [await store.event(event.id) for event in await store.events(EventFilter(limit=10_000))]
        replayed = [event for event in found if event is not None and "replay_of" in event.metadata]
        assert {int(event.metadata["replay_of"]) for event in replayed} == {event.id for event in gone}
        assert payloads(replayed) == payloads(gone)
