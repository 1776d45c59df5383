"""The example of a user's own streaming job, which starts over without its checkpoint and says nothing twice."""

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pyarrow as pa
from pyspark.sql import SparkSession

from eventhub.pipeline.loading import load
from tests.pipeline.support import publish
from tests.pipeline.test_loading import rows_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "derived_events.py"
    found = importlib.util.spec_from_file_location("derived_events", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def order(url: str, first: int, *orders: tuple[int, float, str]) -> None:
    """Paid orders, by the second after noon, with other events between them."""
    rows = [
        {
            "id": first + number,
            "type": "order.paid" if currency else "order.created",
            "payload": json.dumps({"amount": amount, "currency": currency}),
            "tags": None,
            "queue": "orders",
            "created_at": NOON + timedelta(seconds=second),
        }
        for number, (second, amount, currency) in enumerate(orders)
    ]
    load(url, "events", [pa.RecordBatch.from_pylist(rows)])


def sold(url: str) -> dict[tuple[str, str], tuple[int, float]]:
    events = [row for row in rows_of(url, "events").to_pylist() if row["queue"] == "sales"]
    found = [json.loads(row["payload"]) for row in events]
    return {(each["start"][11:19], each["currency"]): (each["orders"], each["total"]) for each in found}


def test_closed_minutes_are_published_back_once(spark: SparkSession, sqlite_path: Path, tmp_path: Path) -> None:
    job, url = example(), str(sqlite_path)
    publish(url, [])

    def run(checkpoint: str) -> None:
        job.start(spark, url, str(tmp_path / checkpoint), once=True).awaitTermination()

    order(
        url, 1, (0, 1.5, "EUR"), (59, 2.0, "EUR"), (59, 9.0, "USD"), (60, 4.0, "EUR"), (61, 1.0, ""), (300, 5.0, "EUR")
    )
    run("checkpoint")
    first = {("12:00:00", "EUR"): (2, 3.5), ("12:00:00", "USD"): (1, 9.0), ("12:01:00", "EUR"): (1, 4.0)}
    assert sold(url) == first
    order(url, 101, (310, 1.0, "EUR"), (900, 1.0, "EUR"))
    run("another checkpoint")
    assert sold(url) == {**first, ("12:05:00", "EUR"): (2, 6.0)}
    keys = [row["idempotency_key"] for row in rows_of(url, "events").to_pylist() if row["queue"] == "sales"]
    assert "sales/2026-03-01T12:05:00Z/EUR" in keys
    assert len(keys) == 4
