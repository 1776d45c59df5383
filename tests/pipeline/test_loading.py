"""Loading: rows come into the hub as they were, each once, and the hub goes on behind them."""

import asyncio
from pathlib import Path

import asyncpg
import pyarrow as pa
import pytest

from eventhub.errors import SchemaMismatch, SettingsError, StoreUnavailable
from eventhub.pipeline.loading import load
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.tables import chosen
from eventhub.store.ledger import DATASETS, Dataset
from tests.pipeline.support import complete, numbered, publish


def rows_of(url: str, dataset: Dataset, visible: Visible | None = None) -> pa.Table:
    batches = list(open_database(url).read(Slice(dataset, visible or Visible()), chosen(dataset, None)))
    return pa.Table.from_batches(batches).sort_by("id")


def history(url: str) -> dict[Dataset, pa.Table]:
    """A few events with all columns, of which some are done, as rows."""
    full = {"metadata": {"k": "v"}, "tags": "b, a", "title": "T", "description": "D'\\", "ordering_key": "o"}
    publish(
        url, [*numbered(3), *numbered(3, first=3, **full), {"type": "x", "payload": "\\n'", "idempotency_key": "i"}]
    )
    complete(url, 4)
    return {dataset: rows_of(url, dataset) for dataset in DATASETS}


def told(rows: pa.Table) -> list[dict[str, object]]:
    """All but the position, which is another in another place."""
    found: list[dict[str, object]] = rows.drop_columns(["position"]).to_pylist()
    return found


@pytest.fixture
def made(tmp_path: Path) -> dict[Dataset, pa.Table]:
    return history(str(tmp_path / "first.db"))


def test_rows_come_back_as_they_were_and_later_ids_are_higher(store_url: str, made: dict[Dataset, pa.Table]) -> None:
    publish(store_url, [])  # the tables
    for dataset in DATASETS:
        rows = made[dataset]
        assert load(store_url, dataset, rows.slice(2, 3).to_batches()) == 3
        assert load(store_url, dataset, rows.to_batches(max_chunksize=2)) == rows.num_rows - 3
        assert load(store_url, dataset, rows.to_batches()) == 0
        assert told(rows_of(store_url, dataset)) == told(rows)
    highest = max(made["events"]["id"].to_pylist())
    assert publish(store_url, numbered(2)) == [highest + 1, highest + 2]
    assert rows_of(store_url, "event_log").num_rows == made["event_log"].num_rows + 2
    assert len(set(rows_of(store_url, "event_log")["id"].to_pylist())) == made["event_log"].num_rows + 2


def test_ids_of_messages_that_are_in_the_log_are_not_given_to_events(store_url: str) -> None:
    publish(store_url, [])
    day = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC"))
    entry = {"id": [9], "event_id": [5], "delivery_id": [41], "action": ["COMPLETED"], "created_at": [day]}
    assert load(store_url, "event_log", pa.table(entry).to_batches()) == 1
    assert publish(store_url, numbered(1)) == [42]


@pytest.mark.parametrize("sequences", [("ids", "event_log_id_seq"), ("event_log_id_seq", "ids")])
def test_who_has_taken_one_number_and_wants_the_other_is_not_waited_for_in_a_circle(
    postgres_url: str, sequences: tuple[str, str]
) -> None:
    day = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC"))
    entry = {"id": [9], "event_id": [5], "delivery_id": [41], "action": ["COMPLETED"], "created_at": [day]}

    waiting = """SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                                WHERE d.datname = current_database() AND NOT l.granted)"""

    async def work() -> int:
        publisher, watcher = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
        async with publisher.transaction():
            await publisher.fetchval("SELECT nextval($1::text::regclass)", f"eventhub.{sequences[0]}")
            loading = asyncio.create_task(
                asyncio.to_thread(load, postgres_url, "event_log", pa.table(entry).to_batches())
            )
            while not await watcher.fetchval(waiting):
                assert not loading.done()
            await publisher.fetchval("SELECT nextval($1::text::regclass)", f"eventhub.{sequences[1]}")
        await publisher.close()
        await watcher.close()
        return await loading

    assert asyncio.run(work()) == 1


def test_rows_that_the_lake_has_are_below_every_range(postgres_url: str, made: dict[Dataset, pa.Table]) -> None:
    for dataset in DATASETS:
        load(postgres_url, dataset, made[dataset].to_batches(), copied=True)
        assert set(rows_of(postgres_url, dataset)["position"].to_pylist()) == {0}
    publish(postgres_url, numbered(1))
    assert rows_of(postgres_url, "events", Visible(first=1)).num_rows == 1


def test_days_of_the_past_get_partitions_of_their_own(postgres_url: str) -> None:
    day = 86_400_000_000
    times = pa.array([0, day, 400 * day], pa.timestamp("us", tz="UTC"))
    entries = pa.table({"id": [1, 2, 3], "event_id": [1, 1, 1], "action": ["PUBLISHED"] * 3, "created_at": times})
    load(postgres_url, "event_log", entries.to_batches())
    database = open_database(postgres_url)
    parts = database.slices(Slice("event_log", Visible()), 2)
    relations = {blocks.relation for part in parts for blocks in part.blocks}
    assert {f"eventhub.event_log_{day}" for day in ("19700101", "19700102", "19710205")} <= relations


def test_what_cannot_be_loaded_into_is_named(tmp_path: Path, bare_postgres_url: str) -> None:
    nothing: list[pa.RecordBatch] = []
    with pytest.raises(SettingsError, match="no database"):
        load("http://somewhere", "events", nothing)
    with pytest.raises(StoreUnavailable, match="no file"):
        load(str(tmp_path / "missing.db"), "events", nothing)
    with pytest.raises(SchemaMismatch, match="eventhub migrate"):
        load(bare_postgres_url, "events", nothing)
    publish(str(tmp_path / "hub.db"), [])
    with pytest.raises(SettingsError, match="no column created_at"):
        load(str(tmp_path / "hub.db"), "event_log", pa.table({"id": [1], "event_id": [1]}).to_batches())
