"""Comparing rows with their copies: every value counts, and nothing but the values."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventhub.lake.datasets import schema_of
from eventhub.lake.reading import TableReader
from eventhub.lake.tables import LakeTable
from eventhub.lake.verifying import checksum, compare
from tests.lake.test_tables import rows, write

DAY = "2026-03-02"


def changed(batch: pa.RecordBatch, **columns: Any) -> pa.Table:
    table = pa.Table.from_batches([batch])
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))
    return table


def test_a_checksum_tells_texts_apart_that_look_alike() -> None:
    texts: list[list[str | None]] = [
        ["ab", "c"],
        ["a", "bc"],
        ["abc", ""],
        ["abc", None],
        [None, "abc"],
        ["ab", "ç"],
        ["", None],
        [None, None],
    ]
    sums = {checksum(pa.table({"t": pa.array(text, pa.string())})) for text in texts}
    assert len(sums) == len(texts)
    numbers = ([1, 0], [1, None], [None, 1], [0, 1], [256, 0])
    assert len({checksum(pa.table({"n": pa.array(each, pa.int32())})) for each in numbers}) == len(numbers)


def test_a_checksum_does_not_depend_on_how_rows_are_cut() -> None:
    whole = pa.Table.from_batches([rows(1, 20)])
    parts = pa.concat_tables([whole.slice(0, 3), whole.slice(3, 0), whole.slice(3, 10), whole.slice(13)])
    assert checksum(whole) == checksum(parts) != checksum(whole.slice(1))


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    made = LakeTable(str(tmp_path / "events"), schema_of("events"))
    made.commit(write(made, rows(1, 12), rows(13, 12)), source="hub/events", number=1)
    return made


def test_rows_are_compared_with_their_copies_alone(table: LakeTable) -> None:
    reader = TableReader(table)
    batch = rows(1, 24)
    assert compare("events", pa.Table.from_batches([batch]), reader, DAY).same
    some = pa.Table.from_batches([batch]).take([20, 3, 7])
    found = compare("events", some, reader, DAY)
    assert (found.rows, found.copies, found.same) == (3, 3, True)
    assert compare("events", some.slice(0, 0), reader, DAY).same
    moved = changed(batch, position=[0] * 24)
    assert compare("events", moved, reader, DAY).same


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("payload", ["{}"] * 23 + ["{ }"]),
        ("title", [None] * 23 + [""]),
        ("queue", ["work"] * 23 + ["Work"]),
        ("type", ["a"] * 22 + ["b", "a"]),
    ],
)
def test_a_single_value_that_differs_is_found(table: LakeTable, column: str, values: list[Any]) -> None:
    found = compare("events", changed(rows(1, 24), **{column: values}), TableReader(table), DAY)
    assert (found.same, found.rows, found.copies, len(found.differing)) == (False, 24, 24, 1)


def test_missing_and_doubled_copies_are_found(table: LakeTable) -> None:
    reader = TableReader(table)
    more = pa.concat_tables([pa.Table.from_batches([rows(1, 24)]), pa.Table.from_batches([rows(100, 1)])])
    found = compare("events", more, reader, DAY)
    assert (found.same, found.rows, found.copies, found.differing) == (False, 25, 24, (100,))
    assert not compare("events", pa.Table.from_batches([rows(1, 24)]), reader, "2026-03-03").same
    table.commit(write(table, rows(5, 1)), source="hub/events", number=2)
    reader.refresh()
    found = compare("events", pa.Table.from_batches([rows(1, 24)]), reader, DAY)
    assert (found.same, found.copies, found.differing) == (False, 25, (5,))


def test_files_are_left_out_by_day_and_by_their_statistics(table: LakeTable) -> None:
    reader = TableReader(table)
    assert not reader.has_copies_of("hub/events")
    assert reader.refresh()
    assert not reader.refresh()
    assert (reader.has_copies_of("hub/events"), reader.has_copies_of("another/events")) == (True, False)
    assert reader.rows(between={"id": (3, 5)}, columns=["id"])["id"].to_pylist() == [3, 4, 5]
    assert reader.rows(between={"id": (90, 99)}).num_rows == 0
    assert reader.rows(days=[]).num_rows == reader.rows(days=["2020-01-01"]).num_rows == 0
    assert sum(batch.num_rows for batch in reader.batches(days=[DAY])) == 24
    assert reader.answer("SELECT id FROM events WHERE id = 7") == [{"id": 7}]
    nothing = TableReader(LakeTable(f"{table.url}/none", table.schema))
    assert (nothing.refresh(), nothing.rows().num_rows, list(nothing.batches())) == (False, 0, [])
    assert nothing.answer("SELECT 1") == []
