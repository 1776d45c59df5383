"""The options of the data source, read strictly: a name or value that cannot be is an error that says what can."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, cast, get_args

import msgspec

from eventhub.errors import SettingsError
from eventhub.store.ledger import COPIED, Dataset

__all__ = ["ReadOptions", "WriteOptions", "read_options", "write_options"]

MOST_PARTITIONS: Final = 10_000
MOST_IN_BATCH: Final = 10_000
Start = Literal["earliest", "latest"]
_READING: Final = (
    *("url", "table", "columns", "partitions", "maxRowsPerBatch", "start", "pushdown"),
    *("types", "actions", "firstId", "lastId", "since", "until"),
)
_WRITING: Final = ("url", "queue", "idempotency", "run", "maxAttempts", "broadcast", "work", "batch")
_SPARKS_OWN: Final = frozenset({"checkpointlocation"})
"""Spark passes options of its own along."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    table: Dataset
    columns: tuple[str, ...] | None = None
    partitions: int | None = None
    most_rows: int | None = None
    start: Start = "earliest"
    pushdown: bool = False
    types: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    first_id: int | None = None
    last_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    queue: str = "default"
    idempotency: str = "derived"
    run: str | None = None
    max_attempts: int | None = None
    broadcast: bool = False
    work: bool = True
    batch: int = 1000


def read_options(options: Mapping[str, str]) -> ReadOptions:
    given = _Given(options, _READING)
    table = given.text("table") or "events"
    if table not in COPIED:
        raise SettingsError(f"table is {table!r}; give one of {', '.join(COPIED)}.")
    start = given.text("start") or "earliest"
    if start not in get_args(Start):
        raise SettingsError(f"start is {start!r}; give one of {', '.join(get_args(Start))}.")
    foreign = "actions" if table == "events" else "types"
    if given.text(foreign) is not None:
        raise SettingsError(f"{table} has no {foreign}; that option is for the other table.")
    return ReadOptions(
        url=given.url(),
        table=table,
        columns=given.names("columns"),
        partitions=given.number("partitions", MOST_PARTITIONS),
        most_rows=given.number("maxRowsPerBatch", 2**62),
        start=cast("Start", start),
        pushdown=given.truth("pushdown", default=False),
        types=given.names("types"),
        actions=given.names("actions"),
        first_id=given.number("firstId", 2**63 - 1),
        last_id=given.number("lastId", 2**63 - 1),
        since=given.time("since"),
        until=given.time("until"),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _Given(options, _WRITING)
    made = WriteOptions(
        url=given.url(),
        queue=given.text("queue") or "default",
        idempotency=given.text("idempotency") or "derived",
        run=given.text("run"),
        max_attempts=given.number("maxAttempts", 2**31 - 1),
        broadcast=given.truth("broadcast", default=False),
        work=given.truth("work", default=True),
        batch=given.number("batch", MOST_IN_BATCH) or 1000,
    )
    if not (made.work or made.broadcast):
        raise SettingsError("work and broadcast are both false: nobody would get the events. Set one of them to true.")
    return made


class _Given:
    """Options by their names, which Spark does not tell apart by case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        unknown = self._options.keys() - {name.lower() for name in known} - _SPARKS_OWN
        if "path" in unknown:
            raise SettingsError("The data source has no path: use .load() without one, and .option('url', …).")
        if unknown:
            raise SettingsError(f"Unknown option {', '.join(sorted(unknown))}; there are {', '.join(known)}.")

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower()) or None

    def url(self) -> str:
        url = self.text("url")
        if url is None:
            raise SettingsError(
                "The option url is missing: give the database, such as postgresql://user@host/database or app.db."
            )
        if url == ":memory:" or url in ("sqlite://", "sqlite:///:memory:"):
            raise SettingsError(
                "Spark works in several processes, which cannot share a database in memory; give a file."
            )
        return url

    def names(self, name: str) -> tuple[str, ...] | None:
        text = self.text(name)
        return None if text is None else tuple(part.strip() for part in text.split(","))

    def time(self, name: str) -> datetime | None:
        text = self.text(name)
        try:
            found = None if text is None else datetime.fromisoformat(text)
        except ValueError:
            found = datetime.min  # noqa: DTZ901 - without a zone, as below
        if found is not None and found.tzinfo is None:
            raise SettingsError(f"{name} is {text!r}; give a time with its zone, such as 2026-01-31T08:00:00Z.")
        return found

    def number(self, name: str, most: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise SettingsError(f"{name} is {text!r}; give a whole number from 1 to {most:,}.")
        return int(text)

    def truth(self, name: str, *, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise SettingsError(f"{name} is {text!r}; give true or false.")
        return text == "true"
