"""Small reads of the lake without Spark: files are left out by their statistics, and row groups by theirs.

A table is opened once and followed from there: who reads again only looks for what was committed since.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventhub.lake.datasets import DAY
from eventhub.lake.tables import has_others

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    from eventhub.lake.tables import LakeTable

__all__ = ["TableReader"]

Between = Mapping[str, tuple[int, int]]
"""Columns and their least and greatest values, both included."""


class TableReader:
    """A table that is read now and then, by several threads."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._opened: DeltaTable | None = None
        self._adds: pa.Table | None = None
        self._queries: QueryBuilder | None = None
        self._owned: dict[str, bool] = {}
        self._lock = threading.Lock()

    def refresh(self) -> bool:
        """Look for new commits; False when there are none, or no table."""
        import pyarrow as pa
        from deltalake import QueryBuilder
        from deltalake.exceptions import DeltaError

        with self._lock:
            before = -1
            if self._opened is None:
                self._opened = self._table.open() if self._table.exists else None
            else:
                before = self._opened.version()
                try:
                    self._opened.update_incremental()
                except DeltaError:  # it was not looked at for so long that the way to now is gone
                    self._opened = self._table.open()
            moved = self._opened is not None and self._opened.version() > before
            if moved and self._opened is not None:
                self._owned = {}
                self._adds = pa.table(self._opened.get_add_actions(flatten=True))
                self._queries = QueryBuilder().register(self._table.url.rpartition("/")[2], self._opened)
            return moved

    def has_copies_of(self, source: str) -> bool:
        """Whether something was copied here, and all of it from this source."""
        with self._lock:
            if self._opened is None:
                return False
            if source not in self._owned:
                self._owned[source] = not has_others(self._opened, source)
            return self._owned[source]

    def answer(self, query: str) -> list[dict[str, Any]]:
        """What the table says to a query by its name: made for few rows, which are found by pages."""
        import pyarrow as pa

        if self._queries is None:
            return []
        try:
            found = self._queries.execute(query).read_all()
        except Exception as error:  # the library has no better name for a file that cannot be read
            raise OSError(str(error)) from error
        rows: list[dict[str, Any]] = pa.table(found).to_pylist()
        return rows

    def rows(
        self,
        *,
        between: Between | None = None,
        days: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        ids: pa.Array | None = None,
    ) -> pa.Table:
        """Rows whose columns lie between the bounds, of these days, with these ids, as far as each is given."""
        found = self._dataset(between or {}, days)
        names = [name for name in columns or self._table.schema.names if name != DAY]
        if found is None:
            return _empty(self._table.schema, names)
        return found.to_table(columns=names, filter=_wanted(between or {}, ids))

    def batches(
        self, *, between: Between | None = None, days: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same as a stream, for what may be large."""
        found = self._dataset(between or {}, days)
        if found is not None:
            names = [name for name in self._table.schema.names if name != DAY]
            yield from found.to_batches(columns=names, filter=_wanted(between or {}, None), batch_readahead=2)

    def _dataset(self, between: Between, days: Collection[str] | None) -> Any:
        from pyarrow import dataset

        if self._adds is None:
            self.refresh()
        files = [] if self._adds is None else _files(self._adds, between, days)
        if not files:
            return None
        filesystem, root = self._table.filesystem()
        schema = self._table.schema.remove(self._table.schema.get_field_index(DAY))
        return dataset.dataset([f"{root}/{file}" for file in files], schema, format="parquet", filesystem=filesystem)


def _files(adds: pa.Table, between: Between, days: Collection[str] | None) -> list[str]:
    """The paths of those that may hold such rows; whose statistics say nothing stays in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keep: Any = None
    for name, (least, greatest) in between.items():
        if f"min.{name}" in adds.column_names:
            fits = pc.and_(
                pc.fill_null(pc.less_equal(adds[f"min.{name}"], greatest), fill_value=True),
                pc.fill_null(pc.greater_equal(adds[f"max.{name}"], least), fill_value=True),
            )
            keep = fits if keep is None else pc.and_(keep, fits)
    if days is not None:
        fits = pc.is_in(pc.cast(adds[f"partition.{DAY}"], pa.string()), pa.array(sorted(days), pa.string()))
        keep = fits if keep is None else pc.and_(keep, fits)
    files: list[str] = (adds if keep is None else adds.filter(keep))["path"].to_pylist()
    return files


def _wanted(between: Between, ids: pa.Array | None) -> Any:
    from pyarrow import dataset

    wanted: Any = None
    for name, (least, greatest) in between.items():
        fits = (dataset.field(name) >= least) & (dataset.field(name) <= greatest)
        wanted = fits if wanted is None else wanted & fits
    if ids is not None:
        fits = dataset.field("id").isin(ids)
        wanted = fits if wanted is None else wanted & fits
    return wanted


def _empty(schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    return schema.empty_table().select(names)
