"""What the data source asks of a database, whichever engine it is; each call stands for itself and can be repeated."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import msgspec

from eventhub.errors import SettingsError, StoreUnavailable
from eventhub.pipeline.source.conditions import Condition
from eventhub.pipeline.source.tables import Column
from eventhub.store.ledger import Dataset
from eventhub.store.opening import open_store, shown, sqlite_path

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.store import Store

__all__ = ["NEEDED_SCHEMA", "Blocks", "Database", "Slice", "Visible", "located", "open_database", "open_shared"]

NEEDED_SCHEMA: Final = 8
"""The migration that brought what is read here."""


class Visible(msgspec.Struct, frozen=True):
    """Which rows a read may see, so that all its parts see the same: positions from ``first`` to below ``last``.

    ``without`` are transactions between that were still open.
    """

    first: int = 0
    last: int | None = None
    without: tuple[int, ...] = ()


class Blocks(msgspec.Struct, frozen=True):
    """A part of a relation: blocks from ``first`` to below ``last``, or to its end."""

    relation: str
    first: int
    last: int | None


class Slice(msgspec.Struct, frozen=True):
    """What one task reads: rows that may be seen and meet the conditions, of the blocks, or of the whole table."""

    table: Dataset
    visible: Visible
    conditions: tuple[Condition, ...] = ()
    blocks: tuple[Blocks, ...] = ()


class Database(ABC):
    """A database to read from. Errors are EventHubError with the remedy."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def origin(self) -> str:
        """Where positions come from; also checks that the database can be used at all."""

    @abstractmethod
    def current(self, table: Dataset) -> Visible:
        """All that is committed now."""

    @abstractmethod
    def horizon(self, table: Dataset) -> int:
        """The position below which nothing will be committed any more."""

    @abstractmethod
    def after(self, table: Dataset, first: int, last: int, rows: int) -> int:
        """The position up to which there are about ``rows`` rows from ``first``, at most ``last``."""

    @abstractmethod
    def count(self, table: Dataset, first: int, last: int, most: int) -> int:
        """How many rows there are in a range of positions, counted up to ``most``."""

    @abstractmethod
    def total(self, table: Dataset) -> int:
        """About how many rows the table has."""

    @abstractmethod
    def settled_slices(self, table: Dataset, first: int, last: int, partitions: int) -> list[Slice]:
        """A range below the horizon in parts: its rows are all there, and stay while the layout does."""

    @abstractmethod
    def layout(self, parts: Sequence[Slice]) -> tuple[str, ...]:
        """What the parts rely on: with another one after they were read, rows may have moved between them."""

    @abstractmethod
    def slices(self, whole: Slice, partitions: int | None) -> list[Slice]:
        """The read in parts for tasks; without a wish as many as there are cores, and one for what is small."""

    @abstractmethod
    def remaining(self, parts: Sequence[Slice]) -> list[Slice | None]:
        """Parts that were made earlier, each in its place, without what was dropped since."""

    @abstractmethod
    def read(self, part: Slice, columns: Sequence[Column]) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a part, in Arrow batches."""


def located(url: str) -> str:
    """The same database for processes that have other working directories."""
    path = sqlite_path(url)
    if path is None or path == ":memory:":
        return url
    whole = os.path.abspath(path)  # noqa: PTH100 - links stay links
    if not url.startswith("sqlite:"):
        return whole
    query = urlsplit(url).query
    return f"sqlite:///{quote(whole)}" + (f"?{query}" if query else "")


def open_shared(url: str) -> Store:
    """The store, as a task opens it: where it runs, a file that is not there must not be made."""
    path = sqlite_path(url)
    if path is not None and not Path(path).is_file():
        raise StoreUnavailable(
            f"There is no file {Path(path).absolute()}. Give the path of the database as every executor sees it."
        )
    return open_store(url)


def open_database(url: str) -> Database:
    """The database that the URL names; nothing is connected yet."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme in ("postgresql", "postgres"):
        from eventhub.pipeline.source.postgres import PostgresDatabase

        return PostgresDatabase(url)
    if scheme in ("", "sqlite"):
        from eventhub.pipeline.source.sqlite import SqliteDatabase

        return SqliteDatabase(url)
    raise SettingsError(
        f"{shown(url)} is no database: give postgresql://user@host/database or the path of an SQLite file."
    )
