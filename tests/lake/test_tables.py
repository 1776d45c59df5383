"""Tables of the lake: a number is committed once, and what was written without a commit is not there."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.fs import DeltaStorageHandler
from pyarrow import parquet

from eventhub.errors import SettingsError, StoreBusy
from eventhub.lake import files
from eventhub.lake.datasets import schema_of
from eventhub.lake.files import FileEntry, write_day_files
from eventhub.lake.place import Lake
from eventhub.lake.tables import LakeTable

BEGAN = datetime(2026, 3, 1, 23, 0, tzinfo=UTC)


def rows(first: int, count: int) -> pa.RecordBatch:
    """Events of which each came an hour after the one before."""
    times = [BEGAN + timedelta(hours=number) for number in range(first, first + count)]
    columns: dict[str, Any] = {name: [None] * count for name in schema_of("events").names}
    columns |= {
        "id": list(range(first, first + count)),
        "type": ["a"] * count,
        "payload": ["{}"] * count,
        "queue": ["work"] * count,
        "created_at": times,
        "position": list(range(first, first + count)),
        "day": [moment.date() for moment in times],
    }
    return pa.RecordBatch.from_pydict(columns, schema=schema_of("events"))


def write(table: LakeTable, *batches: pa.RecordBatch) -> list[FileEntry]:
    return list(write_day_files(batches, *table.filesystem(), name="part-1-0"))


def ids(table: LakeTable) -> list[int]:
    return sorted(table.rows().to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return LakeTable(str(tmp_path / "events"), schema_of("events"))


def test_arrow_reads_files_by_itself_without_a_word_of_python(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(write(table, rows(0, 30)), source="hub/events", number=1)
    monkeypatch.setattr(DeltaStorageHandler, "from_table", lambda *_: pytest.fail("files are opened by Python"))
    assert ids(table) == list(range(30))


def test_a_copy_is_a_file_a_day_and_one_commit(table: LakeTable) -> None:
    assert (table.exists, table.last_number("hub/events")) == (False, 0)
    entries = write(table, rows(0, 2), rows(2, 30))
    assert [(entry.day, entry.rows) for entry in entries] == [("2026-03-01", 1), ("2026-03-02", 24), ("2026-03-03", 7)]
    assert table.commit(entries, source="hub/events", number=1)
    assert ids(table) == list(range(32))
    assert table.open().to_pyarrow_table(filters=[("day", "=", date(2026, 3, 1))]).num_rows == 1
    assert table.describe() | {"bytes": 0} == {"version": 0, "files": 3, "bytes": 0, "rows": 32}


def test_a_number_is_committed_once(table: LakeTable) -> None:
    for number in (1, 2):
        assert table.commit(write(table, rows(number * 10, 2)), source="hub/events", number=number)
        assert not table.commit(write(table, rows(number * 10, 2)), source="hub/events", number=number)
    assert not table.commit(write(table, rows(10, 2)), source="hub/events", number=1)
    assert ids(table) == [10, 11, 20, 21]
    assert table.last_number("hub/events") == 2
    assert table.last_number("another/events") == 0
    assert table.commit(write(table, rows(90, 1)), source="another/events", number=1)


def test_files_without_a_commit_are_not_seen_and_are_cleaned_up(table: LakeTable, tmp_path: Path) -> None:
    table.commit(write(table, rows(0, 3)), source="hub/events", number=1)
    orphans = write(table, rows(100, 3))
    assert ids(table) == [0, 1, 2]
    table.clean(keep_hours=0)
    assert ids(table) == [0, 1, 2]
    assert not any((tmp_path / "events" / entry.path).exists() for entry in orphans)


def test_numbers_outlive_the_log_of_commits(table: LakeTable) -> None:
    """Old commits are deleted when a checkpoint has summed them up; the numbers are in it."""
    for number in (1, 2, 3):
        table.commit(write(table, rows(number * 10, 2)), source="hub/events", number=number, also=["hub/events@here"])
    table.commit([], source="another/events", number=1)
    table.open().create_checkpoint()
    for commit in sorted(Path(table.url).glob("_delta_log/*.json"))[:3]:
        commit.unlink()
    numbers = [table.last_number(source) for source in ("hub/events", "hub/events@here", "another/events")]
    assert numbers == [3, 3, 1]
    assert table.about("hub/events", 1) == {}
    assert not table.commit(write(table, rows(30, 2)), source="hub/events", number=3)
    assert table.commit(write(table, rows(40, 2)), source="hub/events", number=4)
    assert ids(table) == [10, 11, 20, 21, 30, 31, 40, 41]


def test_an_empty_copy_counts_as_well(table: LakeTable) -> None:
    assert table.commit([], source="hub/events", number=1)
    assert table.last_number("hub/events") == 1
    assert ids(table) == []


def test_statistics_let_readers_leave_files_out(table: LakeTable) -> None:
    table.commit(write(table, rows(0, 50)), source="hub/events", number=1)
    adds = table.open().get_add_actions(flatten=True)
    found = dict(
        zip(
            adds["partition.day"].to_pylist(),
            zip(adds["min.id"].to_pylist(), adds["max.id"].to_pylist(), strict=True),
            strict=True,
        )
    )
    assert found[date(2026, 3, 2)] == (1, 24)
    assert adds["null_count.id"].to_pylist() == [0, 0, 0, 0]


def test_a_new_column_is_added_and_old_rows_have_none(table: LakeTable) -> None:
    table.commit(write(table, rows(0, 2)), source="hub/events", number=1)
    schema = table.schema.insert(table.schema.get_field_index("day"), pa.field("colour", pa.string()))
    newer = LakeTable(table.url, schema)
    batch = rows(2, 2)
    place = schema.get_field_index("colour")
    coloured = pa.RecordBatch.from_arrays(
        [*batch.columns[:place], pa.array(["red", "blue"]), *batch.columns[place:]], schema=schema
    )
    assert newer.commit(write(newer, coloured), source="hub/events", number=2)
    found = newer.open().to_pyarrow_table(columns=["id", "colour"]).sort_by("id")
    assert found["colour"].to_pylist() == [None, None, "red", "blue"]


def test_compaction_changes_files_but_not_rows(table: LakeTable) -> None:
    for number in range(1, 6):
        table.commit(write(table, rows(number * 2, 2)), source="hub/events", number=number)
    before = table.describe()
    table.compact()
    after = table.describe()
    assert (after["rows"], after["files"] < before["files"]) == (before["rows"], True)
    assert ids(table) == list(range(2, 12))
    assert table.last_number("hub/events") == 5


def test_of_two_who_commit_the_same_number_at_once_one_is_refused(table: LakeTable) -> None:
    """Both have looked before either commits: the table itself must tell them apart, also at its very first commit."""
    for number in (1, 2):
        meeting = threading.Barrier(2)

        class Late(LakeTable):
            met = False

            def _commit(self, *given: Any, meeting: threading.Barrier = meeting) -> None:
                if not self.met:
                    meeting.wait(30)
                    self.met = True
                super()._commit(*given)

        drivers = [Late(table.url, table.schema) for _ in range(2)]
        written = [write(table, rows(number * 10, 3)) for _ in drivers]
        with ThreadPoolExecutor(2) as pool:
            done = list(
                pool.map(
                    lambda driver, entries, number: driver.commit(entries, source="hub/events", number=number),
                    drivers,
                    written,
                    [number, number],
                )
            )
        assert sorted(done) == [False, True]
    assert ids(table) == [10, 11, 12, 20, 21, 22]


def test_days_are_replaced_in_one_commit_and_only_once(table: LakeTable) -> None:
    table.commit(write(table, rows(0, 40)), source="hub/facts", number=1)
    for _ in range(2):
        table.replace(write(table, rows(1, 2), rows(60, 1)), {"2026-03-02", "2026-05-01"}, source="hub/facts", number=2)
    assert ids(table) == [0, 1, 2, *range(25, 40), 60]
    assert table.open().version() == 1
    table.replace([], {"2026-03-02"}, source="hub/facts", number=3)
    assert ids(table) == [0, *range(25, 40), 60]


def test_what_was_made_from_an_older_state_is_not_committed(table: LakeTable) -> None:
    table.replace(write(table, rows(0, 3)), (), source="hub/facts", number=5, after=0)
    with pytest.raises(StoreBusy, match="went from 0 to 5 while 9"):
        table.replace(write(table, rows(0, 6)), (), source="hub/facts", number=9, after=0)
    assert not table.replace([], (), source="hub/facts", number=5, after=0)
    assert table.replace(write(table, rows(3, 3)), (), source="hub/facts", number=9, after=5)
    assert ids(table) == [0, 1, 2, 3, 4, 5]


def test_files_of_other_days_and_smaller_numbers_are_left_out(table: LakeTable) -> None:
    assert table.file_uris() == []
    table.commit(write(table, rows(0, 40)), source="hub/events", number=1)
    table.commit(write(table, rows(100, 5)), source="hub/events", number=2)
    assert [len(table.file_uris(days=days)) for days in (None, ["2026-03-02"], [])] == [4, 1, 0]
    assert [len(table.file_uris(least={"id": least})) for least in (0, 30, 50, 200)] == [4, 2, 1, 0]
    assert len(table.file_uris(days=["2026-03-01", "2026-03-02"], least={"position": 5})) == 1


def test_small_batches_become_large_groups_and_many_days_few_open_files(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_OPEN", 2)
    entries = write(table, *(rows(number, 3) for number in range(0, 90, 3)))
    assert [(entry.day[-2:], entry.rows) for entry in entries] == [
        ("01", 1),
        ("02", 24),
        ("03", 24),
        ("04", 24),
        ("05", 17),
    ]
    assert {parquet.ParquetFile(Path(table.url) / entry.path).num_row_groups for entry in entries} == {1}


def test_rows_of_many_days_do_not_fill_the_memory(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BYTES_WAITING", 300)
    entries = write(table, *(rows(number, 3) for number in range(0, 90, 3)))
    groups = [parquet.ParquetFile(Path(table.url) / entry.path).num_row_groups for entry in entries]
    assert sum(entry.rows for entry in entries) == 90
    assert max(groups) > 1


def test_a_lake_keeps_its_tables_below_one_place(tmp_path: Path) -> None:
    lake = Lake(f"{tmp_path}/")
    assert lake.dataset("event_log").url == f"{tmp_path}/event_log"
    assert lake.dataset("event_log").schema == schema_of("event_log")
    assert lake.derived("facts/deliveries", schema_of("events")).url == f"{tmp_path}/facts/deliveries"


def test_a_reader_may_ask_for_columns_without_statistics(table: LakeTable) -> None:
    table.commit(write(table, rows(0, 5)), source="hub/events", number=1)
    table.commit(write(table, rows(5, 5)), source="hub/events", number=2)
    for condition, count in {("queue", "=", "work"): 10, ("payload", "=", "{}"): 10, ("id", ">", 7): 2}.items():
        assert table.open().to_pyarrow_table(filters=[condition]).num_rows == count


def test_a_day_that_is_replaced_while_another_compacts_it_has_its_rows_once(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        table.commit(write(table, rows(10 * number, 10)), source="hub/events", number=number)
    commit, turns = table._commit, iter([True])

    def late(*args: Any) -> None:
        if next(turns, False):
            LakeTable(table.url, table.schema).compact()  # after the table was looked at
        commit(*args)

    monkeypatch.setattr(table, "_commit", late)
    days = {str(partition["day"]) for partition in table.open().partitions()}
    assert table.replace(write(table, rows(10, 20)), days, source="hub/events", number=3)
    assert ids(table) == list(range(10, 30))


def test_what_is_committed_is_on_the_disk(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    fsync = os.fsync

    def watched(opened: int) -> None:
        fsync(opened)
        kept.append(str(Path(f"/proc/self/fd/{opened}").readlink()).removeprefix(f"{table.url}/"))

    monkeypatch.setattr(os, "fsync", watched)
    for number in (1, 2):
        entries = write(table, rows(0, 5))
        for entry in entries:
            assert {entry.path, f"day={entry.day}"} <= set(kept)
        table.commit(entries, source="hub/events", number=number)
        assert kept[-2:] == [f"_delta_log/{number - 1:020}.json", "_delta_log"]
    kept.clear()
    table.compact()
    assert {path.rpartition("/")[2] for path in table.file_uris()} <= {path.rpartition("/")[2] for path in kept}
    assert kept[-1] == "_delta_log"


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b"])
def test_a_path_that_would_be_taken_for_another_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"has .* in its path"):
        Lake(str(tmp_path / name))
