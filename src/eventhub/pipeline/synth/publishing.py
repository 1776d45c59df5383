"""What was published: when, of which type, and what each event says, column by column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventhub.pipeline.synth.world import NOTES, TYPES

__all__ = ["DAY", "HOUR", "Calendar", "Numbers", "event_columns", "picked_from", "types_of"]

Numbers = np.ndarray[Any, np.dtype[Any]]
HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
BINS_A_DAY: Final = 288
WEEKEND: Final = 0.55
SATURDAY: Final = 5
ZIPF: Final = 1.05
CUSTOMERS: Final = 20_000
_KEYED: Final = 0.35
_NAMED: Final = 0.1
_SOURCES: Final = ('{"source":"web"}', '{"source":"app","trace":"on"}', '{"source":"batch"}', None, None, None)
_CURRENCIES: Final = ("EUR", "EUR", "EUR", "USD", "GBP", "CHF")


class Calendar:
    """When things happen: little at night, most at noon, less at weekends; from ``days`` ago to ``until``."""

    def __init__(self, until: datetime, days: float) -> None:
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        self.until = (until - epoch) // timedelta(microseconds=1)
        self._first = self.until - int(days * DAY)
        edges = np.linspace(self._first, self.until, max(int(days * BINS_A_DAY), 2))
        middles = (edges[:-1] + edges[1:]) / 2
        hour = (middles % DAY) / HOUR
        weekday = (middles // DAY + 3) % 7
        rate = (1.15 - np.cos((hour - 1) / 24 * 2 * np.pi)) * np.where(weekday >= SATURDAY, WEEKEND, 1.0)
        self._edges, self._shares = edges, np.concatenate([[0.0], np.cumsum(rate) / rate.sum()])

    def times(self, roll: Numbers, first: int, total: int) -> Numbers:
        """The times of events from number ``first`` on, in order, of so many altogether."""
        shares = (first + np.arange(len(roll)) + roll) / total
        return np.interp(shares, self._shares, self._edges).astype(np.int64)

    def fraction(self, times: Numbers) -> Numbers:
        """How much of the time had passed."""
        return (times - self._first) / max(self.until - self._first, 1)


def types_of(rng: np.random.Generator, count: int) -> Numbers:
    """Types by number, the first ones by far the commonest."""
    weights = 1.0 / np.arange(1, len(TYPES) + 1) ** ZIPF
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count)).clip(max=len(TYPES) - 1)


def event_columns(rng: np.random.Generator, types: Numbers, times: Numbers) -> pa.RecordBatch:
    """Events with ids from 0, in the columns of the lake."""
    count = len(types)
    # A few customers are very busy, most come now and then.
    customers = (CUSTOMERS * rng.random(count) ** 4).astype(np.int64)
    said = {
        "id": pa.array(np.arange(count, dtype=np.int64)),
        "type": picked_from([kind.name for kind in TYPES], types),
        "payload": _payloads(rng, customers),
        "metadata": picked_from(_SOURCES, rng.integers(len(_SOURCES), size=count)),
        "tags": picked_from([kind.tags for kind in TYPES], types),
        "title": pa.nulls(count, pa.string()),
        "description": pa.nulls(count, pa.string()),
        "ordering_key": _some(rng, _KEYED, _joined("customer-", customers)),
        "idempotency_key": _some(rng, _NAMED, _joined("request-", rng.integers(2**62, size=count))),
        "queue": picked_from([kind.queue for kind in TYPES], types),
        "created_at": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
    }
    return pa.RecordBatch.from_arrays(list(said.values()), names=list(said))


def picked_from(values: Any, places: Numbers) -> pa.Array:
    """Texts by their places in a list."""
    return pa.array(list(values), pa.string()).take(pa.array(places))


def _payloads(rng: np.random.Generator, customers: Numbers) -> pa.Array:
    count = len(customers)
    cents = rng.integers(100, 100_000, size=count)
    return _joined(
        '{"customer":"c-', customers, '","amount":', cents // 100, ".", cents % 90 + 10, ',"currency":"',
        picked_from(_CURRENCIES, rng.integers(len(_CURRENCIES), size=count)), '","items":',
        rng.integers(1, 12, size=count), ',"reference":"', rng.integers(10**11, 10**12, size=count), '","note":"',
        picked_from(NOTES, rng.integers(len(NOTES), size=count)), '"}',
    )  # fmt: skip


def _joined(*parts: Any) -> pa.Array:
    texts = [pa.array(part).cast(pa.string()) if isinstance(part, np.ndarray) else part for part in parts]
    return pc.binary_join_element_wise(*texts, "")


def _some(rng: np.random.Generator, share: float, texts: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(texts)) < share), texts, None)
