"""The lake in an object store: a real S3 server, the same promises."""

from datetime import UTC, date, datetime

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

from eventhub.lake.files import read_day_file, write_day_files
from eventhub.lake.place import Lake
from eventhub.lake.tables import LakeTable
from tests.object_store import ObjectStore


@pytest.fixture
def events(object_store: ObjectStore, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    return Lake(f"s3://{object_store.bucket}/{request.node.name}").dataset("events")


def rows(schema: pa.Schema, first: int, count: int) -> pa.RecordBatch:
    at = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    some = [
        {"id": number, "type": "a", "payload": "1", "created_at": at, "position": number, "day": at.date()}
        for number in range(first, first + count)
    ]
    return pa.RecordBatch.from_pylist(some, schema=schema)


def add(table: LakeTable, first: int, count: int, number: int) -> bool:
    entries = list(write_day_files([rows(table.schema, first, count)], *table.filesystem(), name=str(number)))
    return table.commit(entries, source="hub/events", number=number)


def test_a_number_is_committed_once(events: LakeTable) -> None:
    assert not events.exists
    assert add(events, 1, 10, number=1)
    assert not add(events, 1, 10, number=1), "its files are there, and belong to nothing"
    assert add(events, 11, 5, number=2)
    assert events.last_number("hub/events") == 2
    assert events.describe()["rows"] == 15


def test_others_read_it_and_it_is_kept_in_order(events: LakeTable, object_store: ObjectStore) -> None:
    for number in range(1, 5):
        add(events, 10 * number, 10, number=number)
    list(write_day_files([rows(events.schema, 1, 1)], *events.filesystem(), name="orphan"))
    events.compact()
    assert len(events.file_uris()) == 1
    events.clean(keep_hours=0)
    below = fs.FileSelector(events.url.removeprefix("s3://"), recursive=True)
    files = [file.path for file in object_store.filesystem.get_file_info(below) if file.path.endswith(".parquet")]
    assert len(files) == 1, "what was compacted, and what never belonged to it, is gone"
    options = {**object_store.environment, "AWS_ALLOW_HTTP": "true"}
    assert pl.read_delta(events.url, storage_options=options)["id"].sort().to_list() == list(range(10, 50))
    (file,) = events.file_uris()
    path = file.removeprefix(f"{events.url}/")
    schema = pa.schema([events.schema.field("day"), events.schema.field("id"), pa.field("newer", pa.string())])
    (batch,) = read_day_file(*events.filesystem(), path, schema)
    assert sorted(row["id"] for row in batch.to_pylist()) == list(range(10, 50))
    assert {(row["day"], row["newer"]) for row in batch.to_pylist()} == {(date(2026, 3, 1), None)}
