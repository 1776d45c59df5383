"""The four formats, parsed by others than us: the payload's text goes out as it is stored."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary_event, from_structured_event
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.envelopes import envelope, timestamp_text
from eventhub.core.strict_json import dump

SOURCE = "urn:eventhub:0af7651916cd43dd8448eb211c80319c"
CREATED = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FORMATS = ("standard", "raw", "ce-binary", "ce-structured")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc äü☃", max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Fact(msgspec.Struct, frozen=True):
    payload: str = '{"id":7}'
    type: str = "order.placed"
    metadata: str | None = None
    ordering_key: str | None = None
    event_id: int = 4127
    created_at: datetime = CREATED


def made(form: str, fact: Fact) -> tuple[dict[str, str], bytes]:
    return envelope(fact, form, source=SOURCE)


def meta(**entries: str) -> str:
    return json.dumps({name.replace("_", "-"): value for name, value in entries.items()})


def test_standard():
    headers, body = made("standard", Fact())
    assert headers == {"content-type": "application/json"}
    assert body == b'{"type":"order.placed","timestamp":"2026-03-04T05:06:07.890123Z","data":{"id":7}}'


def test_raw():
    headers, body = made("raw", Fact())
    assert headers["eventhub-type"] == "order.placed"
    assert headers["content-type"] == "application/json"
    assert body == b'{"id":7}'


@pytest.mark.parametrize("form", ["ce-binary", "ce-structured"])
def test_a_cloud_event_is_read_by_the_public_library(form: str):
    event = read(form, Fact(ordering_key="Büro 7 %"))
    assert event.get_id() == "4127"
    assert event.get_source() == SOURCE
    assert event.get_type() == "order.placed"
    assert event.get_specversion() == "1.0"
    assert event.get_time() == CREATED
    assert event.get_datacontenttype() == "application/json"
    assert event.get_extension("partitionkey") == "Büro 7 %"
    assert event.get_data() == {"id": 7}


def test_attributes_are_text_that_headers_can_carry():
    headers, _ = made("ce-binary", Fact(ordering_key='a "b" ü\r\nx: y'))
    assert headers["ce-partitionkey"] == "a%20%22b%22%20%C3%BC%0D%0Ax:%20y"


@pytest.mark.parametrize("form", ["ce-binary", "ce-structured"])
def test_what_came_in_as_a_cloud_event_goes_out_as_the_same(form: str):
    came = meta(ce_id="A-1", ce_source="/shop", ce_subject="cart/5", ce_time="2020-01-02T03:04:05Z", ce_tenant="t 1",
                ce_datacontenttype="application/vnd.cart+json", other="x")  # fmt: skip
    event = read(form, Fact(metadata=came))
    assert (event.get_id(), event.get_source(), event.get_subject()) == ("A-1", "/shop", "cart/5")
    assert event.get_time() == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert event.get_extension("tenant") == "t 1"
    assert event.get_datacontenttype() == "application/vnd.cart+json"
    assert event.get_type() == "order.placed"
    assert event.get_data() == {"id": 7}
    assert event.get_extension("other") is None


@pytest.mark.parametrize("form", ["ce-binary", "ce-structured"])
def test_text_and_bytes_that_came_in_go_out_as_such(form: str):
    text = meta(ce_id="1", ce_source="/x", ce_datacontenttype="text/plain")
    assert read(form, Fact('"hello ☃"', metadata=text)).get_data() == "hello ☃"
    binary = meta(ce_id="1", ce_source="/x", ce_datacontenttype="image/png", ce_dataencoding="base64")
    event = read(form, Fact('"/+7d"', metadata=binary))
    assert event.get_data() == b"\xff\xee\xdd"
    assert event.get_datacontenttype() == "image/png"
    for payload in ('"no base64!"', '{"id":7}', "null"):
        assert read(form, Fact(payload, metadata=binary)).get_data() == json.loads(payload)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("entries", "passed_on"),
    [
        ({"traceparent": PARENT}, {"traceparent": PARENT}),
        ({"traceparent": PARENT, "tracestate": "a=1,b=2"}, {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": PARENT + "\r\nx: y"}, {}),
        ({"traceparent": "00-x-y-01"}, {}),
        ({"traceparent": PARENT, "tracestate": "a\r\nx: y"}, {"traceparent": PARENT}),
        ({"other": "x"}, {}),
    ],
)
def test_a_trace_is_passed_on(form: str, entries: dict[str, str], passed_on: dict[str, str]):
    headers, _ = made(form, Fact(metadata=json.dumps(entries)))
    assert {name: value for name, value in headers.items() if name.startswith("trace")} == passed_on


@given(JSON, st.none() | st.text(min_size=1, max_size=20), st.dictionaries(st.text(max_size=9), st.text(max_size=9)))
def test_whatever_was_published_every_format_carries_it(payload: Any, key: str | None, metadata: dict[str, str]):
    named = {f"ce-{name}": value for name, value in metadata.items()} | {"ce-id": "1", "ce-source": "x"}
    fact = Fact(dump(payload), ordering_key=key, metadata=json.dumps(named))
    for form in FORMATS:
        headers, body = made(form, fact)
        for name, value in headers.items():
            assert value.isascii(), name
            assert value.isprintable(), name
            assert " " not in value or name == "content-type", name
        assert fact.payload.encode() in body
        data = json.loads(body)
        assert (data["data"] if form in ("standard", "ce-structured") else data) == payload


def test_times_are_utc_whatever_zone_they_come_in():
    there = timezone(timedelta(hours=5, minutes=30))
    assert timestamp_text(datetime(2026, 1, 1, 5, 30, tzinfo=there)) == "2026-01-01T00:00:00Z"
    assert timestamp_text(CREATED) == "2026-03-04T05:06:07.890123Z"


def read(form: str, fact: Fact) -> Any:
    headers, body = made(form, fact)
    parse = from_binary_event if form == "ce-binary" else from_structured_event
    return parse(HTTPMessage(headers, body))
