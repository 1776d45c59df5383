"""Archiving: rows leave the database only when the lake has them exactly so; what left can be read and brought back."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Retry
from eventhub.errors import LakeMismatch, StoreBusy, StoreUnavailable
from eventhub.lake.history import History
from eventhub.lake.place import Lake
from eventhub.pipeline import archiving
from eventhub.pipeline.archiving import ArchivedDay, archive
from eventhub.pipeline.restoring import Restored, restore
from eventhub.store import Store, open_store
from eventhub.store.messages import DeadFilter
from eventhub.store.values import EventFilter, Report
from tests.conformance import hub_support as hub
from tests.pipeline.lake_support import OLD, copy, publish, work

DAY = OLD.date()
BEFORE = datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


async def archived(store: Store, lake: Lake, *, dry_run: bool = False) -> dict[str, ArchivedDay]:
    """What a run did, by dataset and day of the month."""
    days = [day async for day in archive(store, store.url, lake, before=BEFORE, dry_run=dry_run)]
    return {f"{day.dataset} {day.day.day}": day for day in days}


async def everything(store: Store) -> list[int]:
    return sorted(event.id for event in await store.events(EventFilter(limit=1000)))


def only_file(lake: Lake, dataset: str) -> Path:
    """The copy of the old day."""
    (file,) = Path(lake.url, dataset, f"day={DAY}").glob("*.parquet")
    return file


async def test_old_days_leave_and_what_is_open_stays_whole(store: Store, lake: Lake) -> None:
    settled = await publish(store, 20, tags=["a", "b"])
    (dead,) = await publish(store, 1)
    await work(store)
    await publish(store, 1)
    await work(store, dead=1, now=OLD + timedelta(days=1))
    (pending,) = await publish(store, 1)
    today = await publish(store, 2, now=None)
    stories = {number: (await store.event(number), await store.log(number)) for number in await everything(store)}
    await copy(store, lake)
    planned = await archived(store, lake, dry_run=True)
    assert [(day.rows, day.gone, day.staying) for day in planned.values()] == [(23, 0, 2), (65, 0, 2), (3, 0, 3)]
    assert len(await everything(store)) == 25
    done = await archived(store, lake)
    assert {name: (day.rows, day.gone, day.staying) for name, day in done.items()} == {
        "events 1": (23, 21, 2),
        "event_log 1": (65, 63, 2),
        "event_log 2": (3, 0, 3),
    }
    left = await everything(store)
    assert left == sorted({*stories} - {*settled, dead})
    for number in left:
        assert (await store.event(number), await store.log(number)) == stories[number]
    past = History(lake.url, await store.hub_id())
    for number in [*settled, dead]:
        found = await past.find(number)
        assert found is not None
        assert (found.event, found.log) == stories[number]
    assert await past.find(10**12) is None
    again = await archived(store, lake)
    assert [(day.gone, day.trouble) for day in again.values()] == [(0, None)] * len(again)
    await work(store, now=None)
    assert (await store.event(pending), await store.event(today[0])) != (None, None)


async def test_a_day_whose_copy_is_not_the_same_stays(store: Store, lake: Lake) -> None:
    number, *_ = await publish(store, 6, title="as it was")
    await publish(store, 3, now=OLD + timedelta(days=1))
    await work(store)
    await publish(store, 1, now=None)
    await copy(store, lake)
    file = only_file(lake, "events")
    rows = parquet.read_table(file)
    place = rows.column_names.index("title")
    changed = rows.set_column(place, "title", pa.array(["as it was"] * 5 + ["as it is"]))
    for damage in (changed, rows.slice(1), pa.concat_tables([rows, rows.slice(5)])):
        parquet.write_table(damage, file)
        done = await archived(store, lake)
        trouble = done["events 1"].trouble
        assert trouble is not None
        assert f"of 6 rows of events the lake has {damage.num_rows}" in trouble
        assert done["events 1"].gone == 0
        assert len(await everything(store)) == 7
    parquet.write_table(rows, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in str((await archived(store, lake))["events 1"].trouble)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await History(lake.url, await store.hub_id()).find(number)
    file.write_bytes(whole)
    assert (await archived(store, lake))["events 1"].gone == 6


async def test_log_rows_stay_when_their_copies_differ(store: Store, lake: Lake) -> None:
    numbers = await publish(store, 4)
    await work(store)
    await publish(store, 1, now=None)
    await copy(store, lake)
    file = only_file(lake, "event_log")
    rows = parquet.read_table(file)
    parquet.write_table(rows.slice(0, rows.num_rows - 1), file)
    done = await archived(store, lake)
    assert (done["events 1"].gone, done["event_log 1"].gone) == (4, 0)
    assert "of 12 rows of event_log the lake has 11" in str(done["event_log 1"].trouble)
    assert [len(await store.log(number)) for number in numbers] == [3] * 4
    parquet.write_table(rows, file)
    assert (await archived(store, lake))["event_log 1"].gone == 12


async def test_what_came_after_the_last_copy_stays(store: Store, lake: Lake) -> None:
    await publish(store, 3)
    await work(store, dead=1)
    (dead,) = (await store.dead()).events
    await publish(store, 1, now=None)
    await copy(store, lake)
    assert await store.retry_dead([dead.id], by="me", now=OLD + timedelta(days=50)) == {dead.id}
    await work(store, now=OLD + timedelta(days=50))
    late = await publish(store, 2)
    await work(store)
    done = await archived(store, lake)
    assert (done["events 1"].rows, done["events 1"].gone) == (5, 2)
    assert set(await everything(store)) > {dead.id, *late}
    await copy(store, lake)
    done = await archived(store, lake)
    assert done["events 1"].gone == 3
    found = await History(lake.url, await store.hub_id()).find(dead.id)
    assert found is not None
    assert [str(entry.action) for entry in found.log][-3:] == ["RETRIED", "PICKED", "COMPLETED"]
    assert (found.event.status, found.event.retry_count) == (Status.COMPLETED, 0)


async def test_one_archives_at_a_time(store: Store, lake: Lake) -> None:
    await publish(store, 50)
    await work(store)
    await copy(store, lake)
    async with open_store(store.url) as other:
        done = await asyncio.gather(archived(store, lake), archived(other, lake), return_exceptions=True)
        refused = [one for one in done if isinstance(one, StoreBusy)]
        assert len([one for one in done if isinstance(one, dict)]) == 2 - len(refused) >= 1
        assert await everything(store) == []
        fence = await other.take_lock(archiving.LOCK, "somebody", timedelta(minutes=1))
        assert fence is not None
        with pytest.raises(StoreBusy, match="Another process"):
            await archived(store, lake)
        with pytest.raises(StoreBusy, match="Another process"):
            await restore(store, store.url, lake, DAY)


async def test_who_lost_the_lock_deletes_nothing_more(
    store: Store, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "BATCH", 5)
    await publish(store, 20)
    await work(store)
    await copy(store, lake)
    run = archive(store, store.url, lake, before=BEFORE)
    prune = store.prune_events

    async def overtaken(*given: object, **named: object) -> int:
        await store.take_lock(archiving.LOCK, "another", timedelta(minutes=1), now=datetime(2100, 1, 1, tzinfo=UTC))
        return await prune(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "prune_events", overtaken)
    with pytest.raises(StoreBusy, match="was lost"):
        await anext(run)
    assert 0 < len(await everything(store)) < 20


async def test_a_day_comes_back_as_it_was_and_is_not_copied_again(store: Store, lake: Lake) -> None:
    numbers = await publish(store, 10, tags=["x"], ordering_key="k", title="t", metadata={"a": "b"})
    for number in range(10):
        await work(store, now=OLD + timedelta(seconds=number))
    (purged,) = await publish(store, 1)
    await work(store, dead=1)
    await publish(store, 1, now=None)
    stories = [(await store.event(number), await store.log(number)) for number in numbers]
    await copy(store, lake)
    assert await store.purge_dead(older_than=timedelta(days=1)) == 1
    assert (await archived(store, lake))["events 1"].gone == 10
    past = await History(lake.url, await store.hub_id()).find(purged)
    assert past is not None
    assert (past.event.status, past.event.errors) == (Status.FAILED, ("boom",))
    assert await restore(store, store.url, lake, DAY) == Restored(DAY, 10, 30, 0, 1)
    assert [(await store.event(number), await store.log(number)) for number in numbers] == stories
    assert await restore(store, store.url, lake, DAY) == Restored(DAY, 0, 0, 10, 1)
    assert await restore(store, store.url, lake, date(2020, 1, 1)) == Restored(date(2020, 1, 1), 0, 0, 0, 0)
    await copy(store, lake)
    assert (lake.dataset("events").describe()["rows"], lake.dataset("event_log").describe()["rows"]) == (12, 35)
    done = await archived(store, lake)
    assert (done["events 1"].gone, done["event_log 1"].gone) == (10, 30)
    assert await restore(store, store.url, lake, DAY) == Restored(DAY, 10, 30, 0, 1)


async def test_without_its_lake_nothing_is_archived(store: Store, lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeMismatch, match="pipeline run"):
        await archived(store, lake)
    (number,) = await publish(store, 1)
    await work(store)
    await copy(store, lake)
    elsewhere = Lake(str(tmp_path / "elsewhere"))
    with pytest.raises(LakeMismatch, match="lacks the copies"):
        await archived(store, elsewhere)
    with pytest.raises(LakeMismatch, match="no copies of this hub"):
        await restore(store, store.url, elsewhere, DAY)
    assert await everything(store) == [number]
    assert await History(elsewhere.url, await store.hub_id()).find(number) is None
    assert await History(lake.url, "another hub").find(number) is None


async def test_messages_are_told_from_the_lake_as_they_were(store: Store, lake: Lake) -> None:
    """One subscriber gets it at the third try, one loses it and gets it from the dead letters, one is cancelled."""
    first, second, third = [await hub.subscriber(store) for _ in range(3)]
    published = [one.id for one in await hub.broadcast(store, "1", "2", "3")]
    await store.fan_out(await hub.plan(store, first, second, third))
    for claim in await hub.claim(store, third):
        await store.cancel_message(claim.held.id, by="me")
    for error in ("one", "two", None):
        for claim in await hub.claim(store, first, second):
            outcome: Outcome = Complete(status_code=200) if error is None else Retry(error, status_code=503)
            if claim.subscriber == second and error == "two":
                outcome = Bury(error)
            await store.settle([Report(claim.held, outcome)])
    letters = (await store.dead_letters(DeadFilter())).letters
    await store.retry_dead([letter.delivery_id for letter in letters if letter.reason != "cancelled"], by="me")
    for claim in await hub.claim(store, second):
        await store.settle([Report(claim.held, Complete())])
    await store.purge_dead_where(DeadFilter(reason="cancelled"))  # a dead letter would keep its event here
    (alone,) = [one.id for one in await hub.broadcast(store, "4", targets=())]
    await store.fan_out(await hub.plan(store))
    stories = {number: (await store.event(number), await store.log(number)) for number in (*published, alone)}
    assert {event.status for event, _ in stories.values() if event is not None} == {Status.COMPLETED}
    await copy(store, lake)
    before = await store.now() + timedelta(days=1)
    done = [day async for day in archive(store, store.url, lake, before=before)]
    assert [day.gone for day in done if day.dataset == "events"] == [4]
    past = History(lake.url, await store.hub_id())
    for number, story in stories.items():
        found = await past.find(number)
        assert found is not None
        assert (found.event, found.log) == story


async def test_read_back_also_after_compaction(store: Store, lake: Lake) -> None:
    past = History(lake.url, await store.hub_id())
    numbers: list[int] = []
    for turn in range(3):
        numbers += await publish(store, 2, first=turn)
        await work(store)
        await copy(store, lake)
        assert await past.find(numbers[-1]) is not None
    for dataset in ("events", "event_log"):
        lake.dataset(dataset).compact()
        lake.dataset(dataset).clean(keep_hours=0)
    found = [await past.find(number) for number in numbers]
    assert [one is not None and len(one.log) for one in found] == [3] * 6
