"""A table of the lake: Delta, committed once for each number, compacted and cleaned, read by anybody.

The number of a copy is written into the very commit that adds its files. So it can always be asked whether a copy that
was intended is in the table, whatever happened to the one who made it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventhub.lake.datasets import DAY
from eventhub.lake.files import FileEntry

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow import fs

__all__ = ["LakeTable"]

KEEP_HOURS: Final = 168
"""Files that no version of the table has needed for so long are deleted: slow readers may still use them before."""


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

        if "://" in self.url:
            return fs.FileSystem.from_uri(self.url)  # type: ignore[no-any-return]
        return fs.LocalFileSystem(), str(Path(self.url).absolute())

    def last_number(self, source: str) -> int:
        """The number of the last copy from this source that is in the table; 0 when there is none."""
        return (self.open().transaction_version(source) or 0) if self.exists else 0

    def commit(self, entries: Sequence[FileEntry], *, source: str, number: int) -> bool:
        """Add the files under this number; False, and nothing added, when the table has it already.

        The table is made with its first commit, and columns that are new are added with theirs.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, create_table_with_add_actions

        if self.last_number(source) >= number:
            return False
        adds = [
            AddAction(entry.path, entry.size, {DAY: entry.day}, entry.modified_ms, True, entry.stats)
            for entry in entries
        ]
        named = CommitProperties(
            app_transactions=[Transaction(source, number, int(time.time() * 1000))],
            custom_metadata={"eventhub": f"{source}#{number}"},
        )
        if not self.exists:
            create_table_with_add_actions(
                self.url,
                _delta_schema(self.schema),
                adds,
                mode="error",
                partition_by=[DAY],
                storage_options=self._options,
                commit_properties=named,
            )
            return True
        table = self.open()
        self._add_columns(table)
        table.create_write_transaction(
            [*adds], mode="append", schema=_delta_schema(self.schema), partition_by=[DAY], commit_properties=named
        )
        return True

    def _add_columns(self, table: DeltaTable) -> None:
        known = {field.name for field in table.schema().fields}
        new = [field for field in _delta_schema(self.schema).fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()

    def compact(self) -> dict[str, Any]:
        """Many small files of a day become few; readers see the same rows."""
        return self.open().optimize.compact() if self.exists else {}

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


def _delta_schema(schema: pa.Schema) -> Any:
    from deltalake import Schema

    return Schema.from_arrow(schema)
