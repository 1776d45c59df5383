"""Copying to the lake: each row once, whatever happened to those who copied before, and nothing skipped."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import asyncpg
import polars as pl
import pytest
from pyspark.sql import SparkSession

from eventhub.errors import EventHubError, LakeMismatch
from eventhub.lake.files import write_day_files
from eventhub.lake.place import Lake
from eventhub.pipeline.extraction import Extraction
from eventhub.pipeline.frames import frame
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.tables import chosen
from eventhub.store import Store, open_store
from eventhub.store.audit import Act, Actor, acting_as
from eventhub.store.composing import Composer
from eventhub.store.ledger import DATASETS, Dataset
from tests.pipeline.support import finish, numbered

COPIES = 5


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as store:
        yield store


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def no_spark() -> SparkSession:
    raise AssertionError("what is small needs no Spark")


async def publish(store: Store, count: int, **more: Any) -> list[int]:
    return [one.id for one in await store.publish(Composer("default").many(numbered(count, **more)))]


async def copy(store: Store, lake: Lake, dataset: Dataset = "events", **more: Any) -> int:
    return (await Extraction(store, lake, spark=no_spark, **more).extract(dataset)).rows


def ids(lake: Lake, dataset: Dataset = "events") -> list[int]:
    table = lake.dataset(dataset)
    return sorted(table.open().to_pyarrow_table(columns=["id"])["id"].to_pylist()) if table.exists else []


def files(lake: Lake, dataset: Dataset = "events") -> int:
    return len(list(Path(lake.dataset(dataset).url).glob("day=*/*.parquet")))


async def test_new_rows_are_copied_once_as_they_are(store: Store, lake: Lake) -> None:
    made = await publish(store, 30, tags=["a"], metadata={"m": "1"}, title="T")
    await finish(store, 10)
    assert [await copy(store, lake, dataset) for dataset in DATASETS] == [30, 50]
    assert [await copy(store, lake, dataset) for dataset in DATASETS] == [0, 0]
    versions = [lake.dataset(dataset).describe()["version"] for dataset in DATASETS]
    assert versions == [0, 0]  # nothing new is no commit
    more = await publish(store, 5)
    assert [await copy(store, lake, dataset) for dataset in DATASETS] == [5, 5]
    assert ids(lake) == sorted(made + more)
    assert len(set(ids(lake, "event_log"))) == 55
    (row,) = lake.dataset("events").open().to_pyarrow_table(filters=[("id", "=", made[7])]).to_pylist()
    found = await store.event(made[7])
    assert found is not None
    assert (row["type"], row["payload"], row["metadata"]) == ("kind.1", '{"n":7}', '{"m":"1"}')
    assert (row["title"], row["tags"], row["queue"]) == ("T", "a", "default")
    assert (row["created_at"], row["day"]) == (found.created_at, found.created_at.date())
    assert 0 < row["position"] < await store.horizon("events")


async def test_every_crash_is_made_good_by_the_next_run(store: Store, lake: Lake) -> None:
    """Left behind: an intention; one with files; one that is in the lake already. Each with rows that came later."""
    await publish(store, 10)
    await store.intend_commit("events", last=await store.horizon("events"))
    await publish(store, 10)
    assert await copy(store, lake) == 20
    assert [commit.rows for commit in await store.lake_commits("events")] == [10, 10]

    await publish(store, 5)
    await store.intend_commit("events", last=await store.horizon("events"))
    table = lake.dataset("events")
    for batch in table.open().to_pyarrow_table().to_batches():
        list(write_day_files([batch], *table.filesystem(), name="killed"))
    await publish(store, 3)
    assert await copy(store, lake) == 8
    assert len(ids(lake)) == len(set(ids(lake))) == 28

    await publish(store, 4)
    extraction = Extraction(cast("Store", Unfinished(store)), lake, spark=no_spark)
    with pytest.raises(KilledError):
        await extraction.extract("events")
    assert len(ids(lake)) == 32
    newest = (await store.lake_commits("events"))[0]
    assert (newest.done_at, lake.dataset("events").last_number(f"{await store.hub_id()}/events")) == (
        None,
        newest.number,
    )
    before = files(lake)
    await publish(store, 2)
    assert await copy(store, lake) == 6
    assert len(ids(lake)) == len(set(ids(lake))) == 34
    assert files(lake) == before + 1  # what was in the lake was not written again
    assert all(commit.done_at for commit in await store.lake_commits("events"))
    table.clean(keep_hours=0)
    assert len(ids(lake)) == 34
    assert files(lake) == table.describe()["files"]


class KilledError(Exception):
    pass


class Unfinished:
    """A store whose user is gone before it can say that it is done."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "finish_commit":
            raise KilledError
        return getattr(self._store, name)


async def test_two_who_copy_at_the_same_time_copy_each_row_once(store: Store, lake: Lake) -> None:
    """Neither knows of the other, as when the first was believed dead; both go as far as the commit."""
    for _ in range(2):
        await publish(store, 20)
        meeting = asyncio.Barrier(2)

        async def wait(meeting: asyncio.Barrier = meeting) -> None:
            await asyncio.wait_for(meeting.wait(), 30)

        copies = [Extraction(store, lake, spark=no_spark, before_commit=wait) for _ in range(2)]
        await asyncio.gather(*(one.extract("events") for one in copies))
    assert len(ids(lake)) == len(set(ids(lake))) == 40
    assert [commit.rows for commit in await store.lake_commits("events")] == [20, 20]


async def test_who_has_lost_the_lock_commits_nothing(store: Store, lake: Lake) -> None:
    await publish(store, 5)

    async def lost() -> None:
        raise EventHubError("lost")

    with pytest.raises(EventHubError, match="lost"):
        await copy(store, lake, before_commit=lost)
    assert ids(lake) == []
    assert files(lake) == 1
    assert await copy(store, lake) == 5


async def test_a_long_range_is_copied_in_portions_that_each_count(store: Store, lake: Lake) -> None:
    for _ in range(7):
        await publish(store, 5)
    assert await copy(store, lake, most_rows=10) == 35
    commits = await store.lake_commits("events")
    assert (len(commits), sum(commit.rows or 0 for commit in commits)) == (4, 35)
    assert len(ids(lake)) == len(set(ids(lake))) == 35


async def test_a_transaction_of_postgres_is_never_cut_in_two(postgres_url: str, lake: Lake) -> None:
    async with open_store(postgres_url) as store:
        for count in (3, 25, 3, 3, 12):
            await publish(store, count)
        assert await copy(store, lake, most_rows=10) == 46
        commits = await store.lake_commits("events")
    assert [commit.rows for commit in reversed(commits)] == [3, 25, 6, 12]


async def test_to_ask_how_far_one_can_copy_reads_no_table(postgres_url: str) -> None:
    """However long the history is, and however little the planner knows of it."""
    read = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'event%'"
    async with open_store(postgres_url) as store:
        await publish(store, 3000)
    owner = await asyncpg.connect(postgres_url)
    before = await owner.fetchval(read)
    source = open_database(postgres_url)
    for dataset in DATASETS:
        await asyncio.to_thread(source.horizon, dataset)
        await asyncio.to_thread(source.current, dataset)
    await owner.execute("SELECT pg_stat_clear_snapshot()")
    assert await owner.fetchval(read) == before
    await owner.close()


async def test_tasks_of_spark_share_the_work_and_all_readers_agree(
    store: Store, lake: Lake, spark: SparkSession
) -> None:
    await publish(store, 3000, description="d" * 100)
    await finish(store, 1000)
    extraction = Extraction(store, lake, spark=lambda: spark, partitions=2)
    copied = [await extraction.extract(dataset) for dataset in DATASETS]
    assert [(one.rows, one.commits) for one in copied] == [(3000, 1), (5000, 1)]
    assert lake.dataset("events").describe()["files"] == 2
    await publish(store, 500)
    await extraction.extract("events")
    for dataset, expected in zip(DATASETS, (3500, 5000), strict=True):
        table = lake.dataset(dataset)
        counts = {
            "spark": frame(spark, table).select("id").distinct().count(),
            "polars": pl.scan_delta(table.url).select("id").unique().collect().height,
            "duckdb": _counted_by_duckdb(table.open().file_uris()),
            "rows": table.describe()["rows"],
        }
        assert set(counts.values()) == {expected}, counts


def _counted_by_duckdb(files: list[str]) -> int:
    """In a process of its own: where it was used, it has much to say when Python ends."""
    counting = "duckdb.read_parquet(sys.argv[1:]).aggregate('count(DISTINCT id)').fetchall()[0][0]"
    program = f"import duckdb, sys; print({counting})"
    done = subprocess.run([sys.executable, "-c", program, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


async def test_a_table_that_is_written_anew_while_it_is_read_loses_nothing(
    postgres_url: str, lake: Lake, spark: SparkSession
) -> None:
    """VACUUM FULL between the plan and the tasks: rows move to blocks that nobody was told to read."""
    async with open_store(postgres_url) as store:
        old = await publish(store, 2000)
        await copy(store, lake)
        await publish(store, 1000)
        owner = await asyncpg.connect(postgres_url)
        await owner.execute("DELETE FROM eventhub.events WHERE id = ANY ($1)", old)
        pending = ["VACUUM FULL eventhub.events"]
        loop = asyncio.get_running_loop()

        def late() -> SparkSession:
            while pending:
                asyncio.run_coroutine_threadsafe(owner.execute(pending.pop()), loop).result(60)
            return spark

        extraction = Extraction(store, lake, spark=late, partitions=2)
        copied = await extraction.extract("events")
        await owner.close()
    assert copied.rows == 1000
    assert len(ids(lake)) == len(set(ids(lake))) == 3000


async def test_eight_writers_that_also_roll_back_are_copied_without_a_gap(postgres_url: str, lake: Lake) -> None:
    """Some transactions stay open while a whole copy is made; those that began after them have ended long before."""
    committed: list[int] = []
    copied = asyncio.Condition()
    copies = 0

    def later(than: int) -> bool:
        return copies > than

    async def writer(store: Store, place: int) -> None:
        connection = await asyncpg.connect(postgres_url)
        number = place
        while copies < COPIES:
            number += 1
            transaction = connection.transaction()
            await transaction.start()
            made = await store.publish(Composer("default").many(numbered(3)), connection=connection)
            if number % 5 == 0:
                async with copied:
                    await copied.wait_for(partial(later, copies))
            if number % 3:
                await transaction.commit()
                committed.extend(one.id for one in made)
            else:
                await transaction.rollback()
        await connection.close()

    async with open_store(postgres_url) as store:
        writers = [asyncio.create_task(writer(store, place)) for place in range(8)]
        while copies < COPIES:
            for dataset in DATASETS:
                await copy(store, lake, dataset)
            async with copied:
                copies += 1
                copied.notify_all()
        await asyncio.gather(*writers)
        for dataset in DATASETS:
            await copy(store, lake, dataset)
    assert len(committed) > COPIES * 8
    assert ids(lake) == sorted(committed)
    log = lake.dataset("event_log").open().to_pyarrow_table(columns=["id", "event_id"])
    assert sorted(log["event_id"].to_pylist()) == sorted(committed)
    assert len(set(log["id"].to_pylist())) == len(committed)


async def test_a_lake_and_a_ledger_that_do_not_fit_are_not_mixed(store: Store, lake: Lake, tmp_path: Path) -> None:
    await publish(store, 5)
    await copy(store, lake)
    early = tmp_path / "early"
    shutil.copytree(lake.url, early)
    await publish(store, 5)
    await copy(store, lake)
    with pytest.raises(LakeMismatch, match=r"lacks .*copies.* 2.*--rebaseline"):
        await copy(store, Lake(str(early)))
    with pytest.raises(LakeMismatch, match="lacks"):
        await copy(store, Lake(str(tmp_path / "empty")))
    assert ids(Lake(str(early))) == ids(lake)[:5]
    hub = await store.hub_id()
    lake.dataset("events").commit([], source=f"{hub}/events", number=9)
    with pytest.raises(LakeMismatch, match=r"has .*copy 9.*--rebaseline"):
        await copy(store, lake)


async def test_a_copy_that_another_database_made_is_not_taken_for_ours(store: Store, lake: Lake) -> None:
    """A clone has the same name and the same ledger: its copy 1 is of other rows."""
    hub = await store.hub_id()
    await publish(store, 5)
    also = [f"{hub}/events@{await store.origin()}"]
    about = {"first": 0, "last": 10**9}
    lake.dataset("events").commit([], source=f"{hub}/events", number=1, also=also, about=about)
    await store.intend_commit("events", last=await store.horizon("events"))
    with pytest.raises(LakeMismatch, match="other positions"):
        await copy(store, lake)


async def test_positions_of_another_server_are_refused(store: Store, lake: Lake) -> None:
    hub = await store.hub_id()
    await publish(store, 5)
    await store.intend_commit("events", last=await store.horizon("events"))
    await store.finish_commit("events", 1, 5)
    lake.dataset("events").commit([], source=f"{hub}/events", number=1, also=[f"{hub}/events@postgres:1"])
    with pytest.raises(LakeMismatch, match="another server"):
        await copy(store, lake)


async def test_large_rows_are_not_read_many_at_once(store: Store, lake: Lake) -> None:
    events = [{"type": "large", "payload": {"text": "x" * 500_000}} for _ in range(80)]
    for first in range(0, 80, 8):
        await store.publish(Composer("default").many(events[first : first + 8]))
    database = open_database(store.url)
    part = Slice("events", Visible(1, database.horizon("events")))
    sizes = [batch.nbytes for batch in database.read(part, chosen("events", ["id", "payload"]))]
    assert sum(sizes) > 80 * 500_000
    assert max(sizes) < 80 * 500_000
    assert await copy(store, lake) == 80


async def test_a_new_lake_can_be_entered_by_its_user_alone(store: Store, tmp_path: Path) -> None:
    await copy(store, Lake(str(tmp_path / "new" / "lake")))
    for place in (tmp_path / "new", tmp_path / "new" / "lake"):
        assert place.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o750)
    await copy(store, Lake(str(shared)))
    assert shared.stat().st_mode & 0o777 == 0o750


async def test_the_audit_log_is_copied_once_and_what_is_pruned_stays_in_the_lake(store: Store, lake: Lake) -> None:
    with acting_as(Actor("anna", "key", "192.0.2.7", "k0")):
        for number in range(5):
            await store.record_act(Act("key.revoke", f"key:{number}", {"n": number}))
    assert await copied(store, lake, "audit") == 5
    assert await copied(store, lake, "audit") == 0
    assert await store.prune_audit(timedelta(0), now=await store.now() + timedelta(days=1)) == 5
    await store.record_act(Act("key.revoke", "key:5"))
    assert await copied(store, lake, "audit") == 1
    rows = pl.read_delta(lake.dataset("audit").url).sort("id").to_dicts()
    assert [row["target"] for row in rows] == [f"key:{number}" for number in range(6)]
    assert (rows[0]["actor"], rows[0]["address"], rows[0]["key_id"]) == ("anna", "192.0.2.7", "k0")
    assert (rows[0]["action"], rows[0]["details"]) == ("key.revoke", '{"n":0}')
    assert len({row["id"] for row in rows}) == 6


async def copied(store: Store, lake: Lake, dataset: Dataset) -> int:
    """Copy until nothing waits: a transaction elsewhere in the cluster may hold the horizon back for a moment."""
    rows = 0
    while True:
        found = await Extraction(store, lake, spark=no_spark).extract(dataset)
        rows += found.rows
        if not (await store.waiting(dataset, found.position)).rows:
            return rows
        await asyncio.sleep(0.01)
