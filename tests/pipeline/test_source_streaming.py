"""``spark.readStream.format("eventhub")``: everything that is committed, once, however late it was committed."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from eventhub.pipeline.source.options import read_options
from eventhub.pipeline.source.reading import StreamReader
from eventhub.pipeline.source.tables import chosen
from eventhub.store import open_store
from eventhub.store.composing import Composer
from tests.pipeline.support import numbered, publish

WRITERS = 8


class Collected:
    """A query that runs until nothing is left, and the ids that it brought, batch by batch."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path, **options: Any) -> None:
        self.spark = spark
        self.options = {"url": url, "columns": "id,payload,position", **options}
        self.checkpoint = checkpoint
        self.batches: list[list[int]] = []

    def run(self) -> list[list[int]]:
        """What is there now and was not brought before."""
        self.batches = []
        query = (
            self.spark.readStream.format("eventhub")
            .options(**self.options)
            .load()
            .writeStream.foreachBatch(lambda rows, _: self.batches.append([row.id for row in rows.collect()]))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self.batches


def flat(batches: list[list[int]]) -> list[int]:
    return sorted(number for batch in batches for number in batch)


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, store_url: str, tmp_path: Path) -> None:
    first = publish(store_url, numbered(7))
    stream = Collected(spark, store_url, tmp_path / "checkpoint")
    assert flat(stream.run()) == first
    assert flat(stream.run()) == []
    second = publish(store_url, numbered(5))
    again = Collected(spark, store_url, tmp_path / "checkpoint")
    assert flat(again.run()) == second


def test_batches_are_no_larger_than_asked(spark: SparkSession, store_url: str, tmp_path: Path) -> None:
    ids = [publish(store_url, numbered(4, first=4 * turn)) for turn in range(5)]
    batches = Collected(spark, store_url, tmp_path / "checkpoint", maxRowsPerBatch=9).run()
    assert flat(batches) == flat(ids)
    assert len(batches) == 3
    assert max(map(len, batches)) <= 9


def test_the_log_streams_in_parts_from_the_latest(spark: SparkSession, store_url: str, tmp_path: Path) -> None:
    publish(store_url, numbered(10))
    stream = Collected(
        spark, store_url, tmp_path / "checkpoint", table="event_log", columns="id", start="latest", partitions=2
    )
    assert flat(stream.run()) == []
    publish(store_url, numbered(40))
    assert len(flat(stream.run())) == 40


def test_a_range_is_shared_out_as_its_offset_says_whatever_happened_since(store_url: str) -> None:
    published = publish(store_url, numbered(300))

    def reader(partitions: str) -> StreamReader:
        options = {"url": store_url, "table": "event_log", "columns": "event_id", "partitions": partitions}
        return StreamReader(read_options(options), chosen("event_log", ["event_id"]))

    def parts(stream: StreamReader, end: dict[str, Any]) -> list[list[int]]:
        return [
            sorted(number for batch in stream.read(part) for number in batch["event_id"].to_pylist())
            for part in stream.partitions(start, json.loads(json.dumps(end)))
        ]

    first = reader("2")
    start = first.initialOffset()
    end = first.latestOffset(start, ReadAllAvailable())
    shared = parts(first, end)
    assert len([part for part in shared if part]) == 2
    assert flat(shared) == published
    publish(store_url, numbered(900))
    assert parts(reader("5"), end) == shared


def test_a_day_that_was_dropped_leaves_its_tasks_without_rows(postgres_url: str) -> None:
    publish(postgres_url, numbered(300))
    stream = StreamReader(
        read_options({"url": postgres_url, "table": "event_log", "columns": "id", "partitions": "2"}),
        chosen("event_log", ["id"]),
    )
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    days = {relation for part in end["parts"] for relation, *_ in part[2]}

    async def drop() -> None:
        connection = await asyncpg.connect(postgres_url)
        for day in days:
            await connection.execute(f"DROP TABLE {day}")
        await connection.close()

    assert len(stream.partitions(start, end)) == len(end["parts"])
    asyncio.run(drop())
    parts = stream.partitions(start, end)
    assert len(parts) == len(end["parts"])
    assert [batch for part in parts for batch in stream.read(part)] == []


def test_a_checkpoint_of_another_database_is_refused(
    spark: SparkSession, postgres_url: str, sqlite_path: Path, tmp_path: Path
) -> None:
    publish(postgres_url, numbered(1))
    publish(f"sqlite:///{sqlite_path}", numbered(1))
    Collected(spark, postgres_url, tmp_path / "checkpoint").run()
    with pytest.raises(StreamingQueryException, match=r"belongs to postgres:.*start it with a new checkpoint"):
        Collected(spark, f"sqlite:///{sqlite_path}", tmp_path / "checkpoint").run()


async def _write(url: str, seed: int, until: asyncio.Event) -> list[int]:
    """Publish in transactions of its own, which take their time, and roll many of them back."""
    chance = random.Random(seed)
    composer = Composer("default")
    committed: list[int] = []
    connection = await asyncpg.connect(url)
    async with open_store(url, pool_size=1) as store:
        while not until.is_set():
            transaction = connection.transaction()
            await transaction.start()
            ids = []
            for _ in range(chance.randrange(1, 4)):
                events = composer.many(numbered(chance.randrange(1, 6)))
                ids += [one.id for one in await store.publish(events, connection=connection)]
                await asyncio.sleep(chance.random() * 0.1)
            if chance.random() < 0.4:
                await transaction.rollback()
            else:
                await transaction.commit()
                committed += ids
    await connection.close()
    return committed


@pytest.mark.timeout(240)
def test_eight_writers_that_roll_back_lose_and_double_nothing(
    spark: SparkSession, postgres_url: str, tmp_path: Path
) -> None:
    publish(postgres_url, numbered(1, title="before"))

    async def stress() -> tuple[list[int], list[int]]:
        until = asyncio.Event()
        writers = [asyncio.create_task(_write(postgres_url, seed, until)) for seed in range(WRITERS)]
        read: list[int] = []
        try:
            for _ in range(3):
                stream = Collected(spark, postgres_url, tmp_path / "c", maxRowsPerBatch=1000)
                read += flat(await asyncio.to_thread(stream.run))
        finally:
            until.set()
            written = flat(await asyncio.gather(*writers))
        return written, read + flat(await asyncio.to_thread(Collected(spark, postgres_url, tmp_path / "c").run))

    written, read = asyncio.run(stress())
    assert len(written) > 100
    assert sorted(read)[1:] == sorted(written)
