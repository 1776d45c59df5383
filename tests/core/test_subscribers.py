"""What a subscriber may be: every bound from both sides, and an error that names the field."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.subscribers import Subscriber, is_secret_header
from eventhub.errors import InvalidSubscriberError

URL = "https://example.com/hooks"


def made(**fields: Any) -> Subscriber:
    return Subscriber(**{"name": "shipping", "url": URL, **fields})


def test_the_defaults_are_those_of_the_documentation():
    subscriber = made()
    assert subscriber.event_type == "*"
    assert subscriber.format == "standard"
    assert subscriber.max_attempts == 4
    assert subscriber.policy.delays == (5.0, 30.0, 300.0)
    assert (subscriber.connect_timeout_seconds, subscriber.timeout_seconds) == (5.0, 10.0)
    assert subscriber.on_dead == "skip"
    assert subscriber.lease == timedelta(seconds=60)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a"},
        {"name": "x" * 100},
        {"name": "Büro 3, Süd"},
        {"url": "http://example.com"},
        {"url": "https://example.com:8443/a/b?c=%20d&e=f"},
        {"url": "https://[2606:4700::1111]/x"},
        {"url": "https://example.com/" + "x" * 2028},
        {"url": "HTTPS://EXAMPLE.COM/"},
        {"event_type": "order.*"},
        {"event_type": "a.b:c_d-e"},
        {"filter": {}},
        {"filter": {"payload.a": 1}},
        {"headers": {"X-Tenant": "a b\tc", "Authorization": "Bearer x"}},
        {"headers": {f"x-{number}": "y" for number in range(32)}},
        {"format": "ce-binary"},
        {"ordering_key": "ordering_key"},
        {"ordering_key": "payload.customer.id"},
        {"ordering_key": "metadata.tenant"},
        {"ordering_key": "type"},
        {"retry_backoff_seconds": ()},
        {"retry_backoff_seconds": [0]},
        {"retry_backoff_seconds": (604_800,) * 50},
        {"retry_on": ()},
        {"retry_on": ["408", "4xx", "3xx", "1xx", "5xx", "timeout", "network", "599"]},
        {"connect_timeout_seconds": 0.1, "timeout_seconds": 300},
        {"rate_per_second": 0.001},
        {"rate_per_second": 100_000},
        {"max_in_flight": 1},
        {"max_in_flight": 1000},
        {"description": "x" * 1000},
    ],
)
def test_what_is_right_is_taken_and_survives_being_written_down(fields: dict[str, object]):
    subscriber = made(**fields)
    assert Subscriber.parse(msgspec.json.encode(subscriber)) == subscriber
    assert Subscriber.parse(msgspec.structs.asdict(subscriber)) == subscriber


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["", "x" * 101, " a", "a ", "a\nb", "a\x00", "\u200b", "17", "٣", None, 7]),
        (
            "url",
            [
                "", "example.com", "ftp://example.com/", "//example.com/", "https://", "https:///x", "http://:80/",
                "https://user:secret@example.com/", "https://user@example.com/", "https://@example.com/",
                "https://example.com/#part", "https://example.com/#", "https://example.com/a b",
                "https://example.com/\r\nX: y", "https://example.com/\tx", "https://exämple.com/", "https://example.com\\@x/",
                "https://example.com:0/", "https://example.com:99999/", "https://example.com:port/", "https://example.com:/",
                "https://[::1/", "https://example.com/" + "x" * 2029, "javascript:alert(1)", "http:example.com",
                "https://example.com/<x>", 'https://example.com/"', "https://example.com/{x}", None, 7,
                "https://example.com[other.example]/", "https://example.com:[other.example]/", "https://[v1.a]/",
                "https://example.com[2606:4700::1]/", "https://[2606:4700::1]x/", "https://[2606:4700::1][::1]/",
            ],
        ),
        ("event_type", ["", "x" * 129, "a b", "order.>", "*.*.*.*.*.*.*.*.*", "a/b", None, 7]),
        ("filter", [[], "x", {"payload.a": {"in": ["\ud800"]}}]),
        ("filter.nowhere", [{"nowhere": 1}]),
        ("headers", [None, [], {"a b": "c"}, {"": "c"}, {"a:": "c"}, {"ä": "c"}, {"a\r\nb": "c"}, {1: "c"}]),
        ("headers", [{f"x-{number}": "y" for number in range(33)}, {"x": "y" * 16_384}]),
        ("headers.a", [{"a": v} for v in ("", " b", "b ", "b\r\nc: d", "b\nc", "b\x00", "\x7f", "ü", None, 7)]),
        ("headers.A", [{"a": "b", "A": "c"}]),
        *(
            (f"headers.{name}", [{name: "x"}])
            for name in (
                "Host", "content-length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "TE",
                "Accept-Encoding", "Content-Encoding", "Expect", "Upgrade", "webhook-id", "Webhook-Signature", "ce-id",
                "CE-Source", "traceparent", "tracestate", "Proxy-Authorization", "eventhub-type",
            )
        ),
        ("format", ["xml", "", None, []]),
        ("on_dead", ["keep", None]),
        ("guarantee", ["exactly_once", None]),
        ("ordering_key", ["", "customer.id", "payload", "payload.", "payload..a", "type.x", "metadata", 7]),
        ("ordering_key", ["payload." + "a" * 250, "payload" + ".a" * 17]),
        ("retry_backoff_seconds", [None, 5, "5", [-1], [604_801], [float("nan")], ["5"], [True], [1] * 51]),
        ("retry_on", ["429", [429], ["2xx"], ["200"], ["600"], ["xx"], ["Timeout"], ["blocked-destination"]]),
        ("connect_timeout_seconds", [0, 61, -1, float("nan"), float("inf"), None, "5", True]),
        ("timeout_seconds", [0, 301, None]),
        ("rate_per_second", [0, -1, 100_001, float("nan"), "5"]),
        ("max_in_flight", [0, 1001, 1.5, None, True]),
        ("description", ["x" * 1001, "\x00", 7]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_the_name_of_the_field(field: str, values: list[object]):
    for value in values:
        with pytest.raises(InvalidSubscriberError) as caught:
            made(**{field.partition(".")[0]: value})
        assert caught.value.field == field, value
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"name": "a"}, "url"),
        ({"name": "a", "url": URL, "uri": "x"}, "uri"),
        ({"name": "a", "url": URL, "headers": {"x": 1}}, "headers"),
        ({"name": "a", "url": URL, "headers": {"Host": "x"}}, "headers.Host"),
        ({"name": "a", "url": URL, "max_in_flight": "5"}, "max_in_flight"),
        ({"name": "a", "url": URL, "retry_backoff_seconds": [1, "x"]}, "retry_backoff_seconds"),
        ({"name": "a", "url": URL, "filter": {"payload.a": {"like": "x"}}}, "filter.payload.a"),
        ([], ""),
        ("{", ""),
        (b"\xff", ""),
        ({"name": "a", "url": URL, "format": "\ud800"}, ""),
        ({"name": "a", "url": URL, "\ud800": 1}, ""),
    ],
)
def test_a_document_is_refused_with_the_name_of_the_field(document: object, field: str):
    with pytest.raises(InvalidSubscriberError) as caught:
        Subscriber.parse(document)
    assert caught.value.field == field


def test_a_document_has_a_size():
    Subscriber.parse({"name": "a", "url": URL, "filter": {"payload.a": {"in": ["x" * 600] * 100}}})
    with pytest.raises(InvalidSubscriberError, match="at most 65,536") as caught:
        made(filter={"payload.a": {"in": ["x" * 700] * 100}})
    assert caught.value.field == "filter"


def test_at_most_once_is_one_attempt_whatever_the_backoff_says():
    subscriber = made(guarantee="at_most_once", retry_backoff_seconds=(1, 2, 3))
    assert subscriber.max_attempts == subscriber.policy.max_attempts == 1


def test_as_many_retries_as_the_backoff_has_entries():
    assert made(retry_backoff_seconds=[]).max_attempts == 1
    assert made(retry_backoff_seconds=[1, 2]).policy.max_attempts == 3


@given(st.floats(0.1, 60), st.floats(0.1, 300))
def test_a_lease_outlasts_every_request(connect: float, total: float):
    lease = made(connect_timeout_seconds=connect, timeout_seconds=total).lease
    assert lease >= timedelta(seconds=60)
    assert lease.total_seconds() >= connect + total + 30 - 1e-5


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("Authorization", True),
        ("COOKIE", True),
        ("X-Api-Key", True),
        ("x-auth-token", True),
        ("X-Hub-Signature", True),
        ("client-secret", True),
        ("X-Password", True),
        ("X-Tenant", False),
        ("User-Agent", False),
    ],
)
def test_headers_that_carry_secrets_are_known_by_their_names(name: str, *, secret: bool):
    assert is_secret_header(name) is secret
