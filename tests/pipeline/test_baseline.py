"""A lake and a database that fell apart are put right: nothing is lost, nothing is there twice."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, cast

import apsw
import asyncpg
import pytest
from pyspark.sql import SparkSession

from eventhub.errors import EventHubError, LakeMismatch, SchemaMismatch, StoreBusy
from eventhub.lake.place import Lake
from eventhub.pipeline.baseline import intend_baseline
from eventhub.pipeline.extraction import Extraction
from eventhub.pipeline.running import Pipeline
from eventhub.store import Store, open_store
from eventhub.store.ledger import DATASETS, Dataset
from tests.pipeline.test_extraction import copy, ids, publish
from tests.pipeline.test_running import Told


async def intend(store: Store, lake: Lake, dataset: Dataset) -> None:
    """Again while a transaction elsewhere on the server holds it up: the error asks for that."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await intend_baseline(store, lake, dataset)
            except StoreBusy:
                await asyncio.sleep(0.01)


async def rebaseline(store: Store, lake: Lake, spark: SparkSession, **more: Any) -> int:
    pipeline = Pipeline(store, lake, spark=lambda: spark, teller=Told(), stages=("copy",), rebaseline=True, **more)
    return (await pipeline.once()).rows


async def test_a_lake_that_was_lost_is_copied_again_without_spark(store_url: str, tmp_path: Path) -> None:
    async with open_store(store_url) as store:
        await publish(store, 5)
        for dataset in DATASETS:
            await copy(store, Lake(str(tmp_path / "lost")), dataset)
        await publish(store, 5)
        lake = Lake(str(tmp_path / "new"))
        with pytest.raises(LakeMismatch):
            await copy(store, lake)
        assert await rebaseline(store, lake, cast("SparkSession", None)) == 20
        await publish(store, 1)
        assert await copy(store, lake) == 1
        assert len(set(ids(lake))) == len(ids(lake)) == 11
        assert [(one.number, one.rows) for one in await store.lake_commits("events")] == [(3, 1), (2, 10), (1, 5)]


async def test_a_database_from_a_backup_goes_on_and_the_lake_keeps_what_it_lost(
    tmp_path: Path, spark: SparkSession
) -> None:
    """After the backup others were published and copied; the restored database does not give out their ids again."""
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(str(tmp_path / "hub.db")) as store:
        kept = await publish(store, 5)
        for dataset in DATASETS:
            await copy(store, lake, dataset)
        await store.close()
        shutil.copy(tmp_path / "hub.db", tmp_path / "backup.db")
    async with open_store(str(tmp_path / "hub.db")) as store:
        lost = await publish(store, 3)
        for dataset in DATASETS:
            await copy(store, lake, dataset)
    async with open_store(str(tmp_path / "backup.db")) as store:
        with pytest.raises(LakeMismatch, match="restored"):
            await copy(store, lake)
        for dataset in DATASETS:
            await intend(store, lake, dataset)
        made = await publish(store, 2)
        assert min(made) > max(lost)

        async def killed() -> None:
            raise EventHubError("killed")

        with pytest.raises(EventHubError, match="killed"):  # the next run, without being told, goes on with it
            await Extraction(store, lake, spark=lambda: spark, before_commit=killed).extract("events")
        assert (await Extraction(store, lake, spark=lambda: spark).extract("events")).rows == 2
        assert (await Extraction(store, lake, spark=lambda: spark).extract("event_log")).rows == 2
        assert [await copy(store, lake, dataset) for dataset in DATASETS] == [0, 0]
        assert ids(lake) == sorted(kept + lost + made)
        assert len(set(ids(lake, "event_log"))) == len(ids(lake, "event_log")) == 10


async def test_sequences_of_a_restored_dump_pass_the_ids_of_the_lake(postgres_url: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(postgres_url) as store:
        await publish(store, 5)
        for dataset in DATASETS:
            await copy(store, lake, dataset)
        owner = await asyncpg.connect(postgres_url)
        await owner.execute("TRUNCATE eventhub.events, eventhub.event_log, eventhub.deliveries")
        await owner.execute("SELECT setval('eventhub.ids', 1), setval('eventhub.event_log_id_seq', 1)")
        await owner.close()
        for dataset in DATASETS:
            await intend(store, lake, dataset)
        (number,) = await publish(store, 1)
        (entry,) = await store.log(number)
        assert (number > max(ids(lake)), entry.id > max(ids(lake, "event_log"))) == (True, True)


@pytest.mark.parametrize("dataset", DATASETS)
async def test_ids_that_stand_for_two_rows_are_refused(store_url: str, tmp_path: Path, dataset: Dataset) -> None:
    """The restored database was used before anybody thought of the lake."""
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(store_url) as store:
        numbers = await publish(store, 3)
        for each in DATASETS:
            await copy(store, lake, each)
        highest = max(ids(lake, dataset))
        if store_url.startswith("postgresql"):
            owner = await asyncpg.connect(store_url)
            query = f"UPDATE eventhub.{dataset} SET created_at = created_at + interval '1 us' WHERE id = $1"
            await owner.execute(query, highest)
            await owner.close()
        else:
            query = f"UPDATE eventhub_{dataset} SET created_at = created_at + 1 WHERE id = ?"
            apsw.Connection(str(tmp_path / "hub.db")).execute(query, (highest,))
        with pytest.raises(LakeMismatch, match=rf"{dataset} stand .*\({highest}\).* begin a new one"):
            await intend(store, lake, dataset)
        assert len(await store.lake_commits(dataset)) == 1
        new = Lake(str(tmp_path / "new"))
        assert await rebaseline(store, new, cast("SparkSession", None)) == 2 * len(numbers)


class Elsewhere:
    """A store as another server would have it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def origin(self) -> str:
        return "postgres:1"


async def test_a_dump_that_was_restored_on_another_server_gets_new_positions(
    postgres_url: str, tmp_path: Path, spark: SparkSession
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(postgres_url) as store:
        await publish(store, 5)
        for dataset in DATASETS:
            await copy(cast("Store", Elsewhere(store)), lake, dataset)
        owner = await asyncpg.connect(postgres_url)
        await owner.execute("UPDATE eventhub.events SET xid = xid + 1000000")
        await owner.execute("UPDATE eventhub.event_log SET xid = xid + 1000000")
        await owner.close()
        await publish(store, 2)
        with pytest.raises(SchemaMismatch, match="--rebaseline"):
            await copy(store, lake)
        assert await rebaseline(store, lake, spark) == 4
        await publish(store, 1)
        assert [await copy(store, lake, dataset) for dataset in DATASETS] == [1, 1]
        for dataset in DATASETS:
            assert len(set(ids(lake, dataset))) == len(ids(lake, dataset)) == 8
        table = lake.dataset("events").open().to_pyarrow_table(columns=["position"])
        positions = sorted(table["position"].to_pylist())
        assert positions[:5] == [1] * 5
        assert 1 < positions[5] <= positions[7] < await store.horizon("events")
        assert await copy(store, lake) == 0


async def test_a_new_lake_of_a_dump_that_was_restored_on_another_server_is_not_begun_with_gaps(
    postgres_url: str, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    async with open_store(postgres_url) as store:
        await publish(store, 5)
        owner = await asyncpg.connect(postgres_url)
        await owner.execute("UPDATE eventhub.events SET xid = xid + 1000000")
        await owner.execute("UPDATE eventhub.event_log SET xid = xid + 1000000")
        await owner.close()
        await publish(store, 2)
        for dataset in DATASETS:
            with pytest.raises(SchemaMismatch, match=rf"rows of {dataset} carry .* of another server.*--rebaseline"):
                await copy(store, lake, dataset)
            assert await store.lake_commits(dataset) == []
        assert await rebaseline(store, lake, cast("SparkSession", None)) == 14
        await publish(store, 1)
        assert [await copy(store, lake, dataset) for dataset in DATASETS] == [1, 1]
        for dataset in DATASETS:
            assert len(set(ids(lake, dataset))) == len(ids(lake, dataset)) == 8
