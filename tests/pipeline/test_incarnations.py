"""A database that was restored, or has failed over with loss, and its lake: the next run brings them together."""

from contextlib import closing
from pathlib import Path
from typing import cast

import apsw
import pytest
from pyspark.sql import SparkSession

from eventhub.errors import LakeMismatch, StoreError
from eventhub.lake.place import Lake
from eventhub.pipeline.running import Pipeline
from eventhub.store import Store, open_store
from eventhub.store.ledger import DATASETS
from eventhub.testing.postgres_cluster import PostgresCluster
from eventhub.testing.postgres_standby import PostgresStandby, failover_url
from tests.pipeline.test_extraction import ids, publish
from tests.pipeline.test_running import Told


async def run(store: Store, lake: Lake, spark: SparkSession | None) -> Told:
    told = Told()
    await Pipeline(store, lake, spark=lambda: cast("SparkSession", spark), teller=told, stages=("copy",)).once()
    return told


async def check(store: Store, lake: Lake, expected: list[int]) -> None:
    """The lake has these events, each once, and every entry of the log that the database has, each once."""
    assert ids(lake) == sorted(expected)
    entries = ids(lake, "event_log")
    assert len(entries) == len(set(entries)) == len(expected)
    last = await store.last_event()
    for first in sorted({event - event % 1000 for event in [*expected, last]}):
        assert {row[0] for row in await store.snapshot("log", first, first + 1000)} <= set(entries)


async def test_a_file_from_a_backup(tmp_path: Path, spark: SparkSession) -> None:
    lake, path = Lake(str(tmp_path / "lake")), str(tmp_path / "hub.db")
    async with open_store(path) as store:
        kept = await publish(store, 5)
        await run(store, lake, None)
    with (
        closing(apsw.Connection(path)) as source,
        closing(apsw.Connection(str(tmp_path / "copy.db"))) as copy,
        copy.backup("main", source, "main") as backup,
    ):
        backup.step()
    async with open_store(path) as store:
        lost = await publish(store, 3)
        await run(store, lake, None)
    restored = open_store(str(tmp_path / "copy.db"))
    await restored.begin_incarnation()
    await restored.close()
    async with open_store(str(tmp_path / "copy.db")) as store:
        made = await publish(store, 2)
        (note,) = [row[0] for row in await store.snapshot("events", made[0] - 1, made[0])]
        told = await run(store, lake, spark)
        assert any("incarnation 2" in note for note in told.notes)
        assert ids(lake) == sorted([*kept, *lost, note, *made])
        entries = ids(lake, "event_log")
        assert len(entries) == len(set(entries)) == 12
        await publish(store, 1)
        assert (await run(store, lake, None)).notes == []
        assert len(ids(lake)) == len(set(ids(lake))) == 12


async def test_a_failover_that_lost_what_was_copied_already(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(str(tmp_path / "lake"))
    with PostgresCluster(tcp=True) as primary:
        primary.create_database("hub")
        with PostgresStandby(primary) as standby:
            async with open_store(failover_url(primary, standby, database="hub")) as store:
                kept = await publish(store, 5)
                await run(store, lake, None)
                standby.catch_up()
                standby.disconnect()
                lost = await publish(store, 300)
                await run(store, lake, None)
                primary.stop("immediate")
                standby.promote()
                made = await insist(store, 4)
                told = await run(store, lake, spark)
                assert any("incarnation 2" in note for note in told.notes)
                await check(store, lake, [*kept, *lost, *made])
                more = await publish(store, 3)
                assert (await run(store, lake, None)).notes == []
                await check(store, lake, [*kept, *lost, *made, *more])


async def insist(store: Store, count: int) -> list[int]:
    while True:
        try:
            return await publish(store, count)
        except StoreError:
            continue


async def test_a_failover_that_lost_nothing_of_it_goes_on_without_more_ado(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    with PostgresCluster(tcp=True) as primary:
        primary.create_database("hub")
        with PostgresStandby(primary) as standby:
            async with open_store(failover_url(primary, standby, database="hub")) as store:
                kept = await publish(store, 5)
                await run(store, lake, None)
                standby.catch_up()
                standby.disconnect()
                await publish(store, 300)
                primary.stop("immediate")
                standby.promote()
                made = await insist(store, 4)
                assert (await run(store, lake, None)).notes == []
                await check(store, lake, [*kept, *made])


async def test_another_lake_is_no_new_incarnation(tmp_path: Path) -> None:
    """What was archived is only in the right one: nothing is begun anew in a wrong one, whatever has happened."""
    path = str(tmp_path / "hub.db")
    async with open_store(path) as store:
        await publish(store, 5)
        await run(store, Lake(str(tmp_path / "lake")), None)
    restored = open_store(path)
    await restored.begin_incarnation()
    await restored.close()
    async with open_store(path) as store:
        with pytest.raises(LakeMismatch, match="lacks the copies"):
            await run(store, Lake(str(tmp_path / "other")), None)
        for dataset in DATASETS:
            assert len(await store.lake_commits(dataset)) == 1
