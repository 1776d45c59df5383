"""Two hubs and one lake: the second is told so, whatever it wants there, and nothing is mixed."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from eventhub.errors import LakeMismatch
from eventhub.lake.history import History
from eventhub.lake.place import Lake
from eventhub.pipeline.archiving import archive
from eventhub.pipeline.baseline import intend_baseline
from eventhub.pipeline.replaying import Chosen, Order, replay
from eventhub.pipeline.restoring import restore
from eventhub.pipeline.running import Pipeline
from eventhub.store import Store, open_store
from eventhub.store.ledger import DATASETS
from tests.pipeline.lake_support import OLD, Silent, copy, publish, work

NO_SPARK = cast("SparkSession", None)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """The lake of the hub in first.db, with three events."""
    made = Lake(str(tmp_path / "lake"))

    async def fill() -> None:
        async with open_store(str(tmp_path / "first.db")) as store:
            await publish(store, 3)
            await work(store)
            await copy(store, made)

    asyncio.run(fill())
    return made


def rows(lake: Lake) -> list[int]:
    return [lake.dataset(dataset).describe()["rows"] for dataset in DATASETS]


async def archived(store: Store, lake: Lake) -> list[Any]:
    return [day async for day in archive(store, store.url, lake, before=await store.now())]


async def refused(wanted: Awaitable[Any]) -> None:
    with pytest.raises(LakeMismatch, match=r"copies of another hub.* lake of its own with --lake"):
        await wanted


def test_the_second_hub_is_refused_and_finds_nothing(store_url: str, lake: Lake, tmp_path: Path) -> None:
    async def second() -> None:
        async with open_store(store_url) as store:
            (number, *_) = await publish(store, 2)
            await refused(copy(store, lake))
            await refused(archived(store, lake))
            await refused(restore(store, store_url, lake, OLD.date()))
            deriving = Pipeline(store, lake, spark=lambda: NO_SPARK, teller=Silent(), stages=("derive",))
            await refused(deriving.once())
            for dataset in DATASETS:
                await refused(intend_baseline(store, lake, dataset))
                assert await store.lake_commits(dataset) == []
            assert await History(lake.url, await store.hub_id()).find(number) is None
            own = Lake(str(tmp_path / "own"))
            await copy(store, own)
            await refused(copy(store, lake))
            assert rows(own) == [2, 2]

    asyncio.run(second())
    with pytest.raises(LakeMismatch, match="another hub"):
        replay(NO_SPARK, lake, Chosen(), Order(url=store_url, name="r"))
    assert rows(lake) == [3, 9]


def test_two_that_began_at_the_same_moment_both_stop(lake: Lake, tmp_path: Path) -> None:
    for dataset in DATASETS:
        lake.dataset(dataset).commit([], source=f"second/{dataset}", number=1)

    async def first() -> None:
        async with open_store(str(tmp_path / "first.db")) as store:
            await publish(store, 1)
            await refused(copy(store, lake))
            await refused(restore(store, store.url, lake, OLD.date()))
            assert await History(lake.url, await store.hub_id()).find(1) is None

    asyncio.run(first())
    assert rows(lake) == [3, 9]
