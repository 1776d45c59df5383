"""`eventhub pipeline archive` and `restore`, and what `eventhub events show` tells of what was archived."""

import asyncio
from pathlib import Path

import pytest

from eventhub.lake.place import Lake
from eventhub.store import open_store
from tests.cli.support import Command
from tests.pipeline.lake_support import OLD, copy, publish, work


@pytest.fixture
def old(sqlite_path: Path, eventhub: Command) -> list[int]:
    """Events of an old day, of which the last is open; the lake is where it is by default."""

    async def make() -> list[int]:
        async with open_store(str(sqlite_path)) as store:
            numbers = await publish(store, 4)
            await work(store)
            numbers += await publish(store, 1)
            await publish(store, 1, now=None)
            await copy(store, Lake(str(eventhub.directory / "lake")))
            return numbers

    return asyncio.run(make())


def test_archived_events_are_shown_from_the_lake_and_come_back(
    eventhub: Command, sqlite_path: Path, old: list[int]
) -> None:
    db = ("--db", str(sqlite_path))
    before = eventhub.json("events", "show", str(old[0]), "--log", *db)
    planned = eventhub.json("pipeline", "archive", "--dry-run", *db)
    events, log = planned["days"]
    assert (planned["dry_run"], events["rows"], events["gone"], events["staying"], log["staying"]) == (True, 5, 0, 1, 1)
    assert eventhub.json("events", "show", str(old[0]), "--log", *db) == before
    done = eventhub.json("pipeline", "archive", *db)
    assert [(day["dataset"], day["gone"], day["trouble"]) for day in done["days"]] == [
        ("events", 4, None),
        ("event_log", 12, None),
    ]
    assert eventhub.json("events", "show", str(old[0]), "--log", *db) == {**before, "archived": True}
    told = eventhub("events", "show", str(old[0]), *db, "--lake", str(eventhub.directory / "lake"))
    assert "read from the lake" in told.stdout
    elsewhere = eventhub("events", "show", str(old[0]), *db, "--lake", "elsewhere")
    assert (elsewhere.returncode, elsewhere.stderr.strip()) == (1, f"eventhub: Event not found: {old[0]}")
    back = eventhub("pipeline", "restore", "--day", f"{OLD:%Y-%m-%d}", *db)
    assert back.stdout.strip() == "2026-03-01: 4 events and 12 rows of the log came back; 1 were there."
    assert eventhub.json("events", "show", str(old[0]), "--log", *db) == before


def test_for_people_and_when_something_is_wrong(eventhub: Command, sqlite_path: Path, old: list[int]) -> None:
    db = ("--db", str(sqlite_path))
    assert eventhub("pipeline", "archive", *db, "--older-than", "9999d").stdout == "There is nothing that old.\n"
    for wrong, words in (
        (("archive", "--older-than", "soon"), "--older-than is 'soon'"),
        (("restore", "--day", "yesterday"), "--day is 'yesterday'"),
    ):
        done = eventhub("pipeline", *wrong, *db)
        assert (done.returncode, words in done.stderr) == (2, True)
    assert "do not fit together" in eventhub("pipeline", "archive", *db, "--lake", "elsewhere").stderr
    (file,) = (eventhub.directory / "lake" / "events" / f"day={OLD:%Y-%m-%d}").glob("*.parquet")
    kept = file.read_bytes()
    (other,) = [each for each in (eventhub.directory / "lake" / "events").glob("*/*.parquet") if each != file]
    file.write_bytes(other.read_bytes())
    done = eventhub("pipeline", "archive", *db)
    assert done.returncode == 1
    assert "of 5 rows of events the lake has 0" in done.stderr
    assert "its copy in the lake differs" in done.stdout
    file.write_bytes(kept)
    done = eventhub("pipeline", "archive", *db)
    assert done.returncode == 0
    assert "4" in done.stdout
    assert f"{OLD:%Y-%m-%d}" in done.stdout
    assert old
