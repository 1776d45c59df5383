"""A table of the lake: Delta, committed once for each number, compacted and cleaned, read by anybody.

The number of a copy is written into the very commit that adds its files. So it can always be asked whether a copy that
was intended is in the table, whatever happened to the one who made it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from eventhub.errors import StoreBusy
from eventhub.lake.datasets import DAY
from eventhub.lake.files import FileEntry, keep, told_columns
from eventhub.lake.object_stores import S3, s3_filesystem

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import RemoveAction
    from pyarrow import dataset, fs

__all__ = ["LakeTable", "has_others"]

KEEP_HOURS: Final = 168
"""Files that no version of the table has needed for so long are deleted: slow readers may still use them before."""

RECENT: Final = 5
REMEMBERED: Final = 100
"""Commits in which a copy is looked for, among the last first: each is a file."""


class LakeTable:
    """One table at a place: a path, or a URL of an object store with its options."""

    def __init__(self, url: str, schema: pa.Schema, *, options: dict[str, str] | None = None) -> None:
        self.url, self.schema = url, schema
        self._options = options

    @property
    def exists(self) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self.url, storage_options=self._options)

    def open(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self.url, storage_options=self._options)

    def filesystem(self) -> tuple[fs.FileSystem, str]:
        """Where files of the table are written: a file system, and the table's path in it."""
        from pyarrow import fs

        if self.url.startswith(S3):
            return s3_filesystem(self._options or {}), self.url.removeprefix(S3)
        if "://" in self.url:
            return fs.FileSystem.from_uri(self.url)  # type: ignore[no-any-return]
        return fs.LocalFileSystem(), str(Path(self.url).absolute())

    def rows(self) -> dataset.Dataset:
        """What is in the table now, for Arrow, whose threads read the files by themselves.

        The Delta library would have them call Python for each file, and a process that ends while one of them is still
        at it is aborted.
        """
        from pyarrow import fs

        filesystem, root = self.filesystem()
        found: dataset.Dataset = self.open().to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(root, filesystem))
        return found

    def last_number(self, source: str) -> int:
        """The number of the last copy from this source that is in the table; 0 when there is none."""
        return (self.open().transaction_version(source) or 0) if self.exists else 0

    def has_others(self, source: str) -> bool:
        """Whether it has copies from another source than this one: all of them, or some of the last."""
        return self.exists and has_others(self.open(), source)

    def about(self, source: str, number: int) -> dict[str, Any]:
        """What was said about a copy when it was committed; nothing when that was too long ago."""
        if not self.exists:
            return {}
        table = self.open()
        for most in (RECENT, REMEMBERED):
            for entry in table.history(most):
                copy = entry.get("eventhub")
                if isinstance(copy, dict) and copy["copy"] == f"{source}#{number}":
                    return copy
        return {}

    def commit(
        self,
        entries: Sequence[FileEntry],
        *,
        source: str,
        number: int,
        also: Collection[str] = (),
        about: Mapping[str, Any] | None = None,
    ) -> bool:
        """Add the files under this number; False, and nothing added, when the table has it already.

        The table is made with its first commit, and columns that are new are added with theirs. ``also`` are further
        names that get the number; ``about`` is what can be asked about the copy afterwards.
        """
        return self.replace(entries, (), source=source, number=number, also=also, about=about)

    def replace(
        self,
        entries: Sequence[FileEntry],
        days: Collection[str],
        *,
        source: str,
        number: int,
        after: int | None = None,
        also: Collection[str] = (),
        about: Mapping[str, Any] | None = None,
    ) -> bool:
        """In one commit, all files of these days leave and the new ones come; False when it was done already.

        Whoever commits the same number at the same time is refused by the table itself: the number is looked up in the
        very version that the commit is made against. So is ``after``, the number that what comes was made from: when
        the table is at another one, StoreBusy is raised.
        """
        from deltalake.exceptions import DeltaError

        while True:
            table = self.open() if self.exists else None
            if table is not None:
                self._add_columns(table)
            last = 0 if table is None else table.transaction_version(source) or 0
            if last >= number:
                return False
            if after is not None and last != after:
                raise StoreBusy(
                    f"{self.url} went from {after} to {last} while {number} was made: another process works on it. "
                    "Nothing was committed; run it again."
                )
            try:
                self._commit(table, entries, days, _named([source, *also], number, about or {}))
            except DeltaError:
                # Somebody else was faster, or our own commit was made and its answer lost: look again.
                if not self._has_moved(table):
                    raise
            else:
                self._keep_log(table)
                return True

    def _keep_log(self, before: DeltaTable | None) -> None:
        """What was committed since is on the disk, not only on its way there: others let go of rows because of it."""
        filesystem, root = self.filesystem()
        log = f"{root}/_delta_log"
        first = 0 if before is None else before.version() + 1
        versions = range(first, self.open().version() + 1)
        keep(filesystem, [f"{log}/{version:020}.json" for version in versions], [log])

    def _commit(
        self, table: DeltaTable | None, entries: Sequence[FileEntry], days: Collection[str], named: CommitProperties
    ) -> None:
        from deltalake.transaction import AddAction, create_table_with_add_actions

        adds = [
            AddAction(entry.path, entry.size, {DAY: entry.day}, entry.modified_ms, True, entry.stats)
            for entry in entries
        ]
        schema = _delta_schema(self.schema)
        # A retry would come behind whoever was first, and not see what that one has committed or taken away: we look.
        named.max_commit_retries = 0
        if table is None:
            create_table_with_add_actions(
                self.url,
                schema,
                adds,
                mode="error",
                partition_by=[DAY],
                configuration={"delta.dataSkippingStatsColumns": ",".join(told_columns(self.schema))},
                storage_options=self._options,
                commit_properties=named,
            )
            return
        actions: list[AddAction | RemoveAction] = [*adds, *_leaving(table, days)]
        table.create_write_transaction(
            actions, mode="append", schema=schema, partition_by=[DAY], commit_properties=named
        )

    def _has_moved(self, table: DeltaTable | None) -> bool:
        return self.exists and (table is None or self.open().version() > table.version())

    def _add_columns(self, table: DeltaTable) -> None:
        known = {field.name for field in table.schema().fields}
        new = [field for field in _delta_schema(self.schema).fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()

    def file_uris(self, *, days: Collection[str] | None = None, least: Mapping[str, int] | None = None) -> list[str]:
        """The files of the current version; of these days only, and without those that hold nothing from ``least`` on.

        A file whose statistics say nothing stays in: ``least`` leaves out files, not rows. Names are as they are on the
        disk, with spaces and the like.
        """
        if days is not None and not days:
            return []
        wanted: list[tuple[str, str, Any]] = [(DAY, "in", sorted(days))] if days is not None else []
        wanted += [(name, ">=", value) for name, value in (least or {}).items()]
        if not self.exists:
            return []
        return [unquote(uri) for uri in self.open().file_uris(file_pruning_predicate=wanted or None)]

    def compact(self, days: Collection[str] | None = None) -> dict[str, Any]:
        """Many small files of a day become few; readers see the same rows. One file at a time, to be kind to memory."""
        from deltalake import WriterProperties

        if not self.exists:
            return {}
        within = None if days is None else [(DAY, "in", sorted(days))]
        before = self.open()
        told = self.open().optimize.compact(
            partition_filters=within, max_concurrent_tasks=1, writer_properties=WriterProperties(compression="ZSTD")
        )
        filesystem, root = self.filesystem()
        new = _paths(self.open()) - _paths(before)
        keep(filesystem, [f"{root}/{path}" for path in new], {f"{root}/{path.rpartition('/')[0]}" for path in new})
        self._keep_log(before)
        return told

    def days(self) -> set[str]:
        """The days that it has rows of."""
        return {str(partition[DAY]) for partition in self.open().partitions()} if self.exists else set()

    def crowded_days(self, *, many: int, small: int) -> list[str]:
        """The days that have at least so ``many`` files that are ``small``, in bytes."""
        if not self.exists:
            return []
        adds = self.open().get_add_actions(flatten=True)
        files = zip(adds[f"partition.{DAY}"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True)
        counts = Counter(day.isoformat() for day, size in files if size < small)
        return sorted(day for day, count in counts.items() if count >= many)

    def clean(self, *, keep_hours: int = KEEP_HOURS) -> list[str]:
        """Delete files that no version needs any more, and those that never came to belong to one."""
        if not self.exists:
            return []
        return self.open().vacuum(
            retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False, full=True
        )

    def describe(self) -> dict[str, Any]:
        """What it holds: version, files, bytes and rows."""
        if not self.exists:
            return {"version": None, "files": 0, "bytes": 0, "rows": 0}
        table = self.open()
        adds = table.get_add_actions(flatten=True)
        sizes, rows = adds["size_bytes"].to_pylist(), adds["num_records"].to_pylist()
        return {"version": table.version(), "files": len(sizes), "bytes": sum(sizes), "rows": sum(n or 0 for n in rows)}


def has_others(table: DeltaTable, source: str) -> bool:
    """The same for a table that is open. The first commit of a table is a copy, so that there is always one."""
    if table.transaction_version(source) is None:
        return True
    copies = [entry["eventhub"]["copy"] for entry in table.history(RECENT) if isinstance(entry.get("eventhub"), dict)]
    return any(copy.rpartition("#")[0] != source for copy in copies)


def _named(sources: Sequence[str], number: int, about: Mapping[str, Any]) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    now = int(time.time() * 1000)
    return CommitProperties(
        app_transactions=[Transaction(source, number, now) for source in sources],
        custom_metadata={"eventhub": {"copy": f"{sources[0]}#{number}", **about}},
    )


def _paths(table: DeltaTable) -> set[str]:
    return set(table.get_add_actions(flatten=True)["path"].to_pylist())


def _leaving(table: DeltaTable, days: Collection[str]) -> list[RemoveAction]:
    from deltalake.transaction import RemoveAction

    if not days:
        return []
    now = int(time.time() * 1000)
    adds = table.get_add_actions(flatten=True)
    files = zip(
        adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), adds[f"partition.{DAY}"].to_pylist(), strict=True
    )
    return [
        RemoveAction(path, True, now, size, {DAY: day.isoformat()})
        for path, size, day in files
        if day.isoformat() in days
    ]


def _delta_schema(schema: pa.Schema) -> Any:
    from deltalake import Schema

    return Schema.from_arrow(schema)
