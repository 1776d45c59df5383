"""An SQLite file that is named by a path from here, for tasks that run in other directories."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from eventhub.errors import StoreUnavailable
from eventhub.lake.place import Lake
from eventhub.pipeline.replaying import Chosen, Order, Replayed, replay
from eventhub.pipeline.replaying.publishing import republish
from eventhub.pipeline.source import sink
from eventhub.pipeline.source.database import located
from eventhub.pipeline.source.options import WriteOptions
from eventhub.store import open_store
from eventhub.store.opening import shown, sqlite_path
from tests.pipeline.lake_support import copy, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("hub.db", "hub.db"),
        ("sqlite:///a/100%25 ö.db?synchronous=NORMAL", "a/100% ö.db"),
        ("sqlite:////a/hub.db", "/a/hub.db"),
        ("sqlite:hub.db", "hub.db"),
        ("sqlite://hub.db", "hub.db"),
        (":memory:", None),
        ("sqlite://", None),
        ("postgresql://me@host/hub", None),
    ],
)
def test_a_path_from_here_is_the_same_file_elsewhere(url: str, path: str | None) -> None:
    found = located(url)
    assert located(found) == found
    if path is None:
        assert found == url
    else:
        assert sqlite_path(found) == os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
        assert found.partition("?")[2] == url.partition("?")[2]


def test_a_path_is_shown_as_it_is() -> None:
    assert [shown(url) for url in ("hub.db", ":memory:", "sqlite:///hub.db")] == [
        "hub.db",
        ":memory:",
        "sqlite:///hub.db",
    ]


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_a_task_makes_no_database(prefix: str, tmp_path: Path) -> None:
    url = f"{prefix}{tmp_path / 'nowhere.db'}"
    rows = pa.RecordBatch.from_pylist([{"type": "a", "payload": "1"}])
    with pytest.raises(StoreUnavailable, match=r"no file .*nowhere\.db.*every executor"):
        republish([rows], Order(url=url, name="r"), None)
    with pytest.raises(StoreUnavailable, match=r"no file .*nowhere\.db.*every executor"):
        sink._publish([rows], WriteOptions(url=url), "run/x", 0)
    assert list(tmp_path.iterdir()) == []


def test_writers_know_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for writer in (sink.BatchWriter(WriteOptions(url="hub.db")), sink.StreamWriter(WriteOptions(url="hub.db"))):
        assert writer._options.url == str(tmp_path / "hub.db")


def test_a_replay_finds_the_file_that_was_meant(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's tasks stay in the directory where it was started."""
    monkeypatch.chdir(tmp_path)

    async def fill() -> None:
        async with open_store("hub.db") as store:
            await publish(store, 3)
            await copy(store, Lake("lake"))

    asyncio.run(fill())
    for url, before in (("hub.db", 0), ("sqlite:///hub.db", 3)):
        assert replay(spark, Lake("lake"), Chosen(), Order(url=url, name="r")) == Replayed(3, before)
