"""Writing: every row becomes an event, published in bulk by the store itself, and once however often a task is tried.

Which rows are the same again is told by their idempotency keys. Where a row brings none, one is derived from where the
row comes from – the query and epoch, or the run, and the partition – and from what it says; of rows in one partition
that say the same, each counts. A task that is tried again, also in another order, so finds its rows published already.

The partition has to be in the key: a task that finds its row published cannot know whether that was this row, or one in
another partition that says the same, and the second must not be lost. So whoever repeats must share the rows out as
before. Our streams do, because their offsets say how. Where that cannot be had, and rows are all different or need not
be told apart, ``distinct`` leaves the partition out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, DataType, IntegralType, MapType, StringType, StructType, TimestampType

from eventhub.core.strict_json import load, ready_texts
from eventhub.errors import EventHubError, InvalidEventError, SettingsError
from eventhub.pipeline.source.database import located, open_shared
from eventhub.pipeline.source.options import WriteOptions
from eventhub.store.composing import Composer
from eventhub.store.values import NewEvent

__all__ = ["BatchWriter", "StreamWriter", "check_columns"]

_QUERY: Final = "sql.streaming.queryId"
_EPOCH: Final = "streaming.sql.batchId"
_TEXTS: Final = ("title", "description", "ordering_key", "idempotency_key")
_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "type": (StringType,),
    "payload": (StringType,),
    "metadata": (StringType, MapType),
    "tags": (StringType, ArrayType),
    **dict.fromkeys(_TEXTS, (StringType,)),
    "priority": (IntegralType,),
    "deliver_at": (TimestampType,),
}
_NEEDED: Final = ("type", "payload")
KEYWORDS: Final = ("derived", "distinct", "none")
"""What ``idempotency`` may be besides a column."""
AT_A_TIME: Final = 256


class Written(WriterCommitMessage):
    """What a task published, and how many of these were there already."""

    def __init__(self, events: int, duplicates: int) -> None:
        self.events = events
        self.duplicates = duplicates


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Say before anything is written what the rows lack, or have too much."""
    found = {field.name: field.dataType for field in schema.fields}
    keyed = options.idempotency not in KEYWORDS
    if keyed and not isinstance(found.pop(options.idempotency, None), StringType):
        raise SettingsError(
            f"idempotency is {options.idempotency!r}, and there is no such column of strings; "
            f"name a column, or give {', '.join(KEYWORDS[:-1])} or {KEYWORDS[-1]}."
        )
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise SettingsError(
            f"The rows have no column {' and no '.join(missing)}; an event needs both type and payload."
        )
    unknown = sorted(found.keys() - _COLUMNS.keys())
    if unknown:
        raise SettingsError(
            f"The rows have columns that an event has not: {', '.join(unknown)}. "
            f"Drop them; there are {', '.join(_COLUMNS)}."
        )
    for name, kind in found.items():
        if not isinstance(kind, _COLUMNS[name]):
            remedy = "; make JSON of it with to_json" if name == "payload" else ""
            allowed = " or ".join(one.__name__.removesuffix("Type").lower() for one in _COLUMNS[name])
            raise SettingsError(f"The column {name} is {kind.simpleString()}; it must be {allowed}{remedy}.")


class BatchWriter(DataSourceArrowWriter):
    """Publishes a DataFrame; with the same ``run`` as before, what was published before is not published again."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = replace(options, url=located(options.url))
        self._run = options.run or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _publish(iterator, self._options, f"run/{self._run}", _context().partitionId())


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes each micro-batch, keyed by the query and its epoch, which outlive restarts."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = replace(options, url=located(options.url))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if query is None or epoch is None:
            raise EventHubError("Spark did not say which query and epoch this is; nothing was published.")
        return _publish(iterator, self._options, f"query/{query}/{epoch}", context.partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise EventHubError("Rows are written by Spark's tasks only.")
    return context


def _publish(batches: Iterable[pa.RecordBatch], options: WriteOptions, place: str, partition: int) -> Written:
    return asyncio.run(_published(batches, options, _Keys(options.idempotency, place, partition)))


async def _published(batches: Iterable[pa.RecordBatch], options: WriteOptions, keys: _Keys) -> Written:
    """While one batch is being stored, the next one is made ready."""
    composer = Composer(options.queue, max_attempts=options.max_attempts)
    events = duplicates = 0
    async with open_shared(options.url) as store:
        storing: asyncio.Task[Sequence[Any]] | None = None
        try:
            for batch in batches:
                for first in range(0, batch.num_rows, options.batch):
                    composed = await _composed(composer, keys, batch.slice(first, options.batch), options)
                    if storing is not None:
                        duplicates += sum(one.duplicate for one in await storing)
                    storing = asyncio.create_task(store.publish(composed))
                    events += len(composed)
            if storing is not None:
                duplicates += sum(one.duplicate for one in await storing)
        finally:
            if storing is not None and not storing.done():
                storing.cancel()
    return Written(events, duplicates)


async def _composed(composer: Composer, keys: _Keys, batch: pa.RecordBatch, options: WriteOptions) -> list[NewEvent]:
    """Events of rows, a few at a time: in between, what is being stored goes on."""
    composed: list[NewEvent] = []
    names = batch.schema.names
    for first in range(0, batch.num_rows, AT_A_TIME):
        rows = batch.slice(first, AT_A_TIME)
        columns = {name: column.to_pylist() for name, column in zip(names, rows.columns, strict=True)}
        payloads = columns["payload"]
        texts = ready_texts(payloads) if None not in payloads else [None] * len(payloads)
        events = [
            _event(dict(zip(names, row, strict=True)), text, keys)
            for row, text in zip(zip(*columns.values(), strict=True), texts, strict=True)
        ]
        composed += composer.many(events, texts=texts)
        await asyncio.sleep(0)
    if options.broadcast or not options.work:
        for event in composed:
            event.work, event.broadcast = options.work, options.broadcast
    return composed


def _event(row: dict[str, Any], text: str | None, keys: _Keys) -> dict[str, Any]:
    """What is to be composed; a payload whose text can be stored as it is need not be read."""
    key = keys.of(row)
    event = {name: value for name, value in row.items() if value is not None}
    if text is None:
        if row["payload"] is None or row["type"] is None:
            raise InvalidEventError(
                f"A row has no {'type' if row['type'] is None else 'payload'}; JSON's null is the text null."
            )
        event["payload"] = load(row["payload"])
    if "metadata" in event:
        event["metadata"] = _metadata(event["metadata"])
    if key is not None:
        event["idempotency_key"] = key
    return event


def _metadata(value: Any) -> Any:
    """A map comes as pairs, a text as JSON."""
    return load(value) if isinstance(value, str) else dict(value)


class _Keys:
    """Idempotency keys: from a column, or derived."""

    def __init__(self, idempotency: str, place: str, partition: int) -> None:
        self._column = None if idempotency in KEYWORDS else idempotency
        self._derives = idempotency != "none"
        self._counts = idempotency != "distinct"
        whose = f"{place}/{partition}" if self._counts else place
        self._place = blake2b(whose.encode(), digest_size=32).digest()
        self._seen: set[bytes] = set()  # of every row of the task, so it is kept small
        self._again: Counter[bytes] = Counter()

    def of(self, row: dict[str, Any]) -> str | None:
        """The key of a row, whose own column is taken out of it."""
        if self._column is not None:
            named: str | None = row.pop(self._column)
            if named is not None:
                return named
        if not self._derives or row.get("idempotency_key") is not None:
            return None
        said = blake2b(msgspec.json.encode(row), digest_size=16, key=self._place).digest()
        if not self._counts:
            return f"spark-{said.hex()}"
        if said not in self._seen:
            self._seen.add(said)
            return f"spark-{said.hex()}"
        self._again[said] += 1
        return f"spark-{said.hex()}-{self._again[said] + 1}"
