"""The events that are published: 300 bytes of JSON, as an application would have them."""

from __future__ import annotations

from typing import Any, Final

from eventhub.bench.settings import TYPE
from eventhub.core.strict_json import dump

__all__ = ["PAYLOAD", "PAYLOAD_TEXT", "batch"]

_FIELDS: Final = {
    "order_id": 4711001,
    "customer": {"id": 99182, "name": "Ada Lovelace", "country": "GB"},
    "amount": 129.95,
    "currency": "EUR",
    "items": [{"sku": "A-100", "count": 2}, {"sku": "B-7", "count": 1}],
    "paid": True,
}
PAYLOAD: Final[dict[str, Any]] = {**_FIELDS, "note": "n" * (300 - len(dump({**_FIELDS, "note": ""})))}
PAYLOAD_TEXT: Final = dump(PAYLOAD)


def batch(count: int) -> list[dict[str, Any]]:
    """Events for one call of publish_many."""
    return [{"type": TYPE, "payload": PAYLOAD} for _ in range(count)]
