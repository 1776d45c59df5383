"""The figures of the pipeline over HTTP: those of the marts of this hub, read again when they change."""

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventhub.lake.figures import COUNTS
from eventhub.lake.files import write_day_files
from eventhub.lake.marts import MARTS
from eventhub.lake.place import Lake
from eventhub.store import open_store
from tests.http.conftest import MakeHub
from tests.pipeline.lake_support import copy

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Fewer:
    @staticmethod
    def find_spec(name, *more):
        missing = name.partition(".")[0] in ("deltalake", "pandas", "pyarrow", "pyspark")
        return None if missing else PathFinder.find_spec(name, *more)

sys.meta_path = [Fewer if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""A Python in which the packages of the extra are not installed."""


def put_daily(lake: Lake, number: int, **counts: int) -> None:
    """A mart as the pipeline would leave it, for one day."""
    path = "marts/daily"
    row: dict[str, Any] = {**dict.fromkeys(MARTS[path].names), **dict.fromkeys(COUNTS, 0)}
    row |= {"dimension": "all", "name": "", "day": date(2026, 3, number), **counts}
    table = lake.derived(path, MARTS[path])
    batch = pa.RecordBatch.from_pylist([row], schema=MARTS[path])
    table.commit(list(write_day_files([batch], *table.filesystem(), name="t")), source="t", number=number)


def copy_all(url: str, lake: Lake) -> None:
    async def work() -> None:
        async with open_store(url) as store:
            await copy(store, lake)

    asyncio.run(work())


def test_without_what_reads_a_lake_the_hub_says_what_to_install(
    make_hub: MakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = make_hub("sqlite", afresh=True).get("/history")
    assert (answer.status, answer.kind) == (404, "no-lake-reader")
    assert "eventhub[spark]" in answer.json["detail"]


def test_the_history_is_that_of_the_marts(make_hub: MakeHub, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    hub = make_hub("sqlite", "--lake", lake.url)
    missing = hub.get("/history")
    assert (missing.status, missing.kind) == (404, "no-history")
    assert "eventhub pipeline run" in missing.json["detail"]
    assert hub.get("/session").json["lake"] is False

    hub.publish(title="x", tags="a")
    copy_all(hub.server.db, lake)
    assert hub.get("/history").kind == "no-history", "copied, but nothing was derived"
    put_daily(lake, 1, published=7, succeeded=3, failed=1)
    found = hub.get("/history").json
    assert (found["first_day"], found["last_day"], found["total"]["counts"]["published"]) == (
        "2026-03-01",
        "2026-03-01",
        7,
    )
    assert found["total"]["failure_rate"] == 0.25
    assert found["last_run"]["running"] is False
    assert found["last_run"]["at"] is not None
    again = hub.get("/history").json
    assert again["made_at"] == found["made_at"], "nothing has changed, so nothing is read"

    put_daily(lake, 2, published=5)
    newer = hub.get("/history").json
    assert (newer["last_day"], newer["total"]["counts"]["published"]) == ("2026-03-02", 12)
    assert hub.get("/history", days=1).json["total"]["counts"]["published"] == 5
    assert hub.get("/history", days=0).status == 400
    assert hub.get("/session").json["lake"] is True
    assert not any(concern["link"] == "#/history" for concern in hub.get("/overview").json["attention"])


def test_the_lake_of_another_hub_is_no_history(make_hub: MakeHub, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    owner = make_hub("sqlite")
    owner.publish(title="x", tags="a")
    copy_all(owner.server.db, lake)
    put_daily(lake, 1, published=7)
    assert make_hub("sqlite", "--lake", lake.url).get("/history").kind == "no-history"
