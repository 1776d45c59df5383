"""Who gets which event."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.errors import SettingsError
from eventhub.hub.directory import Directory
from eventhub.store.messages import Marker, SubscriberRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(number: int, **fields: Any) -> SubscriberRow:
    subscriber = Subscriber(name=f"s{number}", url="https://example.com/hook", **fields)
    document = msgspec.json.encode(subscriber).decode()
    return SubscriberRow(
        id=number, name=subscriber.name, document=document, sealed=None, created_at=NOW, updated_at=NOW
    )


def marker(kind: str, payload: str | None = None, **fields: Any) -> Marker:
    return Marker(7, kind, fields.get("key"), fields.get("metadata"), payload, fields.get("targets"), True)


def test_patterns_and_filters_choose():
    directory = Directory(
        1,
        [
            row(1),
            row(2, event_type="order.*"),
            row(3, event_type="order.paid", filter={"payload.total": {"gte": 100}}),
            row(4, event_type="user.*"),
        ],
    )
    assert directory.plan().needs_payload
    assert [p.subscriber for p in directory.place(marker("order.paid", '{"total":100}'))] == [1, 2, 3]
    assert [p.subscriber for p in directory.place(marker("order.paid", '{"total":99}'))] == [1, 2]
    assert [p.subscriber for p in directory.place(marker("user.created", "{}"))] == [1, 4]


def test_who_is_named_gets_it_whatever_it_wants():
    directory = Directory(1, [row(1, event_type="a"), row(2, event_type="b", filter={"payload.x": 1})])
    assert [p.subscriber for p in directory.place(marker("c", "{}", targets=(2, 99)))] == [2]


def test_keys_are_read_where_the_subscriber_says():
    directory = Directory(
        1, [row(1, ordering_key="ordering_key", on_dead="park"), row(2, ordering_key="payload.customer.id"), row(3)]
    )
    placed = directory.place(marker("a", '{"customer":{"id":5}}', key="k"))
    assert [(p.key, p.parks) for p in placed] == [("k", True), ("5", False), (None, False)]
    assert [p.key for p in directory.place(marker("a", "{}"))] == [None, None, None]


def test_payloads_are_read_only_when_somebody_needs_them():
    assert not Directory(1, [row(1, ordering_key="ordering_key")]).plan().needs_payload
    assert Directory(1, [row(1, ordering_key="payload.a")]).plan().needs_payload


def test_one_that_cannot_be_understood_stops_the_handing_out_here_for_it_must_lose_nothing():
    newer = msgspec.structs.replace(row(1), document='{"name":"x","url":"gopher://new"}')
    with pytest.raises(SettingsError, match="this release does not know"):
        Directory(1, [newer, row(2)])


def test_guarantees_and_limits_go_along():
    directory = Directory(1, [row(1, guarantee="at_most_once"), row(2, retry_backoff_seconds=(1,) * 9)])
    assert [p.max_attempts for p in directory.place(marker("a"))] == [1, 10]
