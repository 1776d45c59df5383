"""A CloudEvent that one hub sends is the same event when another hub takes it in."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from eventhub.core.envelopes import envelope
from eventhub.http.bodies.events import NewEventBody
from eventhub.http.cloud_events import binary, structured


class Fact(msgspec.Struct, frozen=True):
    payload: str
    metadata: str | None = None
    ordering_key: str | None = "Kunde 7 ☃"
    type: str = "order.placed"
    event_id: int = 9
    created_at: datetime = datetime(2026, 1, 2, tzinfo=UTC)


def sent_and_taken(form: str, fact: Fact) -> NewEventBody:
    headers, body = envelope(fact, form, source="urn:eventhub:a")
    if form == "ce-structured":
        return structured(body)
    return binary({name.encode(): value.encode() for name, value in headers.items()}, body)


@pytest.mark.parametrize("form", ["ce-binary", "ce-structured"])
@pytest.mark.parametrize("payload", [{"a": [1, "ü", None]}, "text", 5, None, [], {}])
def test_an_event_comes_through_two_hubs_unchanged(form: str, payload: Any):
    first = sent_and_taken(form, Fact(json.dumps(payload)))
    assert first.payload == payload
    assert first.event_type == "order.placed"
    assert first.ordering_key == "Kunde 7 ☃"
    second = sent_and_taken(form, Fact(json.dumps(first.payload), json.dumps(first.metadata), event_id=77))
    assert second == first


@pytest.mark.parametrize("form", ["ce-binary", "ce-structured"])
def test_data_that_is_not_json_comes_through_as_well(form: str):
    metadata = {"ce-id": "1", "ce-source": "/x", "ce-datacontenttype": "image/png", "ce-dataencoding": "base64"}
    taken = sent_and_taken(form, Fact('"/+7d"', json.dumps(metadata)))
    assert taken.payload == "/+7d"
    assert taken.metadata is not None
    assert metadata.items() <= taken.metadata.items()
