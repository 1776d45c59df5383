"""Replaying events of the lake: the right ones, each once under a name, keys in their order, linked to the old."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from eventhub.core.events import QueuedEvent
from eventhub.errors import SettingsError
from eventhub.lake.place import Lake
from eventhub.pipeline.archiving import archive
from eventhub.pipeline.replaying import Chosen, Order, Replayed, check_name, count, replay
from eventhub.pipeline.replaying.publishing import COLUMNS, again, republish
from eventhub.pipeline.restoring import restore
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.values import EventFilter
from tests.conformance import hub_support as hub
from tests.pipeline.lake_support import OLD, copy, publish
from tests.pipeline.lake_support import work as settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = OLD + timedelta(days=3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def filled(url: str, lake: Lake, *events: dict[str, Any], queue: str = "default") -> list[int]:
    """Events of an old day, in the database and in the lake."""

    async def work() -> list[int]:
        async with open_store(url) as store:
            published = await store.publish(Composer(queue).many(events), now=OLD)
            await copy(store, lake)
            return [one.id for one in published]

    return asyncio.run(work())


def made(url: str) -> list[QueuedEvent]:
    """The replayed events, oldest first."""

    async def work() -> list[QueuedEvent]:
        async with open_store(url) as store:
            found = await store.events(EventFilter(limit=10_000))
            return [event for event in reversed(found) if "replay_of" in event.metadata]

    return asyncio.run(work())


def forget_keys(url: str, lake: Lake) -> None:
    """Settle, copy and archive the replayed events: then only the lake knows of them."""

    async def work() -> None:
        async with open_store(url) as store:
            for _ in range(16):  # of each ordering key one at a time
                await settle(store, now=None)
            await copy(store, lake)
            before = await store.now() + timedelta(days=1)
            done = [day async for day in archive(store, url, lake, before=before)]
            assert sum(day.gone for day in done if day.dataset == "events") == 80
            await restore(store, url, lake, (await store.now()).date())

    asyncio.run(work())


def links(events: list[QueuedEvent]) -> list[int]:
    return [int(event.metadata["replay_of"]) for event in events]


def row(number: int, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(COLUMNS)
    return empty | {"id": number, "type": "a", "payload": "1", "queue": "default"} | more


# ---------------------------------------------------------------- without Spark


def test_work_is_work_again_and_a_broadcast_a_broadcast() -> None:
    order = Order(url="", name="r", work_queue="work", max_retries=5)
    plain = again(row(1, tags="b, a", metadata='{"a":"b"}', ordering_key="k", idempotency_key="own"), order)
    assert (plain.route.queue, plain.route.tags, plain.tags) == ("default", ("a", "b"), "b, a")
    assert (plain.work, plain.broadcast, plain.max_attempts) == (True, False, None)
    assert (plain.metadata, plain.idempotency_key) == ('{"a":"b","replay_of":"1"}', "replay/r/1")
    job = again(row(2, queue="work", type="job", tags="a"), order)
    assert (job.work, job.broadcast, job.max_attempts) == (True, False, 5)
    both = again(row(3, queue="work", tags="a"), order)
    assert (both.work, both.broadcast) == (True, True)
    told = again(row(4, queue="work"), order)
    assert (told.work, told.broadcast, told.targets) == (False, True, None)
    one = again(row(5, queue="work", tags="a"), Order(url="", name="r", subscriber=7))
    assert (one.work, one.broadcast, one.targets, one.tags) == (False, True, (7,), None)


def test_a_replay_keeps_to_its_rate_and_is_free_where_it_was(sqlite_path: Path) -> None:
    order = Order(url=str(sqlite_path), name="r")
    assert made(order.url) == []
    rows = pa.RecordBatch.from_pylist([row(number) for number in range(1, 61)])
    began = time.monotonic()
    assert republish([rows.slice(0, 40)], order, 100.0) == (40, 0)
    assert time.monotonic() - began > 0.2
    assert republish([rows], order, 1000.0) == (60, 40)
    assert links(made(str(sqlite_path))) == list(range(1, 61))


@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "a/b"])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be used"):
        check_name(name)


# ------------------------------------------------------------------- with Spark


def test_what_fits_all_that_is_given_is_counted(spark: "SparkSession", sqlite_path: Path, lake: Lake) -> None:
    first = filled(str(sqlite_path), lake, *({"type": f"kind.{n % 3}", "payload": {"n": n}} for n in range(6)))

    async def later() -> list[int]:
        async with open_store(str(sqlite_path)) as store:
            numbers = await publish(store, 3, now=LATER, tags=["red", "blue"])
            await copy(store, lake)
            return numbers

    second = asyncio.run(later())
    for chosen, found in (
        (Chosen(), {"kind.0": 3, "kind.1": 3, "kind.2": 3}),
        (Chosen(since=LATER, types=("kind.1", "kind.2")), {"kind.1": 1, "kind.2": 1}),
        (Chosen(until=LATER, where="get_json_object(payload, '$.n') < 2"), {"kind.0": 1, "kind.1": 1}),
        (Chosen(tags=("blue", "green"), until=LATER + timedelta(seconds=1)), {"kind.0": 1, "kind.1": 1, "kind.2": 1}),
        (Chosen(ids=(first[0], second[0], 10**9)), {"kind.0": 2}),
    ):
        assert count(spark, lake, chosen, "r") == found
    for wrong in ("nothing = 1", "(", "payload"):
        with pytest.raises(SettingsError, match="--where is no condition"):
            count(spark, lake, Chosen(where=wrong), "r")
    assert count(spark, Lake(f"{lake.url}/empty"), Chosen(), "r") == {}


def test_keys_that_look_like_those_of_a_replay_are_none(spark: "SparkSession", sqlite_path: Path, lake: Lake) -> None:
    (first,) = filled(str(sqlite_path), lake, {"type": "a", "payload": 1})
    keys = ("replay/foo/abc", f"replay/foo/{first}", "replay/foo/")
    filled(str(sqlite_path), lake, *({"type": "b", "payload": 1, "idempotency_key": key} for key in keys))
    assert count(spark, lake, Chosen(), "foo") == {"b": 3, "a": 1}
    assert replay(spark, lake, Chosen(types=("b",)), Order(url=str(sqlite_path), name="foo")) == Replayed(3, 0)


def test_a_condition_that_fails_on_an_event_says_so(spark: "SparkSession", sqlite_path: Path, lake: Lake) -> None:
    filled(str(sqlite_path), lake, *({"type": "a", "payload": {"total": total}} for total in (12.5, 200, "much")))
    order = Order(url=str(sqlite_path), name="r")
    sound = Chosen(where="try_cast(get_json_object(payload, '$.total') AS double) > 100")
    assert count(spark, lake, sound, "r") == {"a": 1}
    wrong = Chosen(where="get_json_object(payload, '$.total') > 100")
    for act in (lambda: count(spark, lake, wrong, "r"), lambda: replay(spark, lake, wrong, order)):
        with pytest.raises(SettingsError, match=r"^--where .*CAST_INVALID_INPUT.*try_cast.*\Z"):
            act()


def test_a_replay_is_completed_not_repeated(spark: "SparkSession", store_url: str, lake: Lake) -> None:
    events = [
        {"type": f"kind.{n % 3}", "payload": {"n": n, "text": "ü"}, "ordering_key": f"k{n % 5}"} for n in range(40)
    ]
    numbers = filled(store_url, lake, *events)
    order = Order(url=store_url, name="once")
    half = Chosen(ids=tuple(numbers[::2]))
    assert replay(spark, lake, half, order) == Replayed(20, 0)
    with pytest.raises(SettingsError, match="under another name"):
        replay(spark, lake, half, Order(url=store_url, name="once", subscriber=1))
    assert replay(spark, lake, Chosen(), order) == Replayed(40, 20)
    forget_keys(store_url, lake)
    assert count(spark, lake, Chosen(), "once") == {}
    assert replay(spark, lake, Chosen(), order, rate=1e6) == Replayed(40, 40)
    found = made(store_url)
    assert Counter(links(found)) == Counter(numbers)
    assert Counter(str(event.payload) for event in found) == Counter(str(event["payload"]) for event in events)
    for run in (found[:20], found[20:]):
        for key in {event.ordering_key for event in run}:
            in_order = links([event for event in run if event.ordering_key == key])
            assert in_order == sorted(in_order)


def test_a_subscriber_gets_the_past_in_order(spark: "SparkSession", store_url: str, lake: Lake) -> None:
    numbers = filled(store_url, lake, *({"type": "a", "payload": n, "ordering_key": "k"} for n in range(12)))

    async def work() -> tuple[int, int]:
        async with open_store(store_url) as store:
            return await hub.subscriber(store, "new"), await hub.subscriber(store, "other")

    wanted, other = asyncio.run(work())
    assert replay(spark, lake, Chosen(), Order(url=store_url, name="fill", subscriber=wanted)) == Replayed(12, 0)

    async def received(store: Store) -> list[Any]:
        await store.fan_out(await hub.plan(store, wanted, other))
        return [(claim.subscriber, claim.payload) for claim in await hub.claim(store, wanted, other)]

    async def look() -> list[Any]:
        async with open_store(store_url) as store:
            return await received(store)

    assert asyncio.run(look()) == [(wanted, str(n)) for n in range(12)]
    assert links(made(store_url)) == numbers


def test_a_replay_that_was_killed_is_completed(spark: "SparkSession", postgres_url: str, lake: Lake) -> None:
    numbers = filled(postgres_url, lake, *({"type": "a", "payload": n} for n in range(400)))
    program = [str(Path(sys.executable).with_name("eventhub")), "pipeline", "replay", "--name", "killed"]
    options = ["--rate", "40", "--db", postgres_url, "--lake", lake.url, "--master", "local[2]"]
    environment = {**os.environ, "EVENTHUB_SPARK_TRAINING": "off"}
    running = subprocess.Popen([*program, *options], env=environment, start_new_session=True)
    try:
        while not (before := len(made(postgres_url))):
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.2)
            assert running.poll() is None
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    done = replay(spark, lake, Chosen(), Order(url=postgres_url, name="killed"))
    assert 0 < before <= done.duplicates < done.events == 400
    assert sorted(links(made(postgres_url))) == numbers
