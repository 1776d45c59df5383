"""What no subscriber may be: each refusal is 422, points to the member, and stores nothing."""

from typing import Any

import pytest

from tests.http.conftest import Hub

GOOD = {"url": "https://hooks.example.com/in"}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"headers": {"X-A": "a\r\nHost: evil.example"}}, "/headers/X-A"),
    ({"headers": {"X-A": "a\nb"}}, "/headers/X-A"),
    ({"headers": {"X-A": "a\rb"}}, "/headers/X-A"),
    ({"headers": {"X-A\r\nX-B": "a"}}, "/headers"),
    ({"headers": {"X A": "a"}}, "/headers"),
    ({"headers": {"": "a"}}, "/headers"),
    ({"headers": {"X-A": "ü"}}, "/headers/X-A"),
    *[
        ({"headers": {name: "a"}}, f"/headers/{name}")
        for name in (
            "Host",
            "host",
            "Content-Length",
            "content-type",
            "Transfer-Encoding",
            "Connection",
            "webhook-id",
            "Webhook-Signature",
            "webhook-timestamp",
            "ce-id",
            "CE-Type",
        )
    ],
    ({"headers": {f"X-{n}": "a" for n in range(200)}}, "/headers"),
    ({"headers": {"X-A": 7}}, "/headers"),
    ({"headers": ["X-A"]}, "/headers"),
    *[
        ({"url": url}, "/url")
        for url in (
            "",
            "hooks.example.com",
            "ftp://hooks.example.com",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https:///path",
            "https://user:password@hooks.example.com/",
            "https://hooks.example.com/#fragment",
            "https://hooks.example.com/a b",
            "https://hooks.example.com/\r\nX-A: b",
            "https://hooks.example.com:99999/",
            "https://hooks.example.com:22/",
            f"https://hooks.example.com/{'a' * 2048}",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[fe80::1%25eth0]/",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://192.168.1.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
            "http://localhost/",
            "http://a.localhost/",
        )
    ],
    ({"event_type": ""}, "/event_type"),
    ({"event_type": "a" * 129}, "/event_type"),
    ({"event_type": ".".join("*" * 9)}, "/event_type"),
    ({"event_type": "a/b"}, "/event_type"),
    ({"event_type": None}, "/event_type"),
    ({"filter": {"payload.a": {"like": "x"}}}, "/filter/payload.a"),
    ({"filter": {"payload.a": {}}}, "/filter/payload.a"),
    ({"filter": {"payload.a": {"in": []}}}, "/filter/payload.a"),
    ({"filter": {"payload.a": {"in": list(range(101))}}}, "/filter/payload.a"),
    ({"filter": {"payload.a": {"gt": [1]}}}, "/filter/payload.a"),
    ({"filter": {"customer.country": "SE"}}, "/filter/customer.country"),
    ({"filter": {"payload." + ".".join("a" * 17): 1}}, "/filter/payload." + ".".join("a" * 17)),
    ({"filter": {f"payload.{n}": n for n in range(33)}}, "/filter"),
    ({"filter": []}, "/filter"),
    ({"filter": "payload.a"}, "/filter"),
    ({"ordering_key": "customer.id"}, "/ordering_key"),
    ({"ordering_key": ""}, "/ordering_key"),
    ({"format": "xml"}, "/format"),
    ({"on_dead": "shout"}, "/on_dead"),
    ({"guarantee": "exactly_once"}, "/guarantee"),
    ({"retry_backoff_seconds": [-1]}, "/retry_backoff_seconds"),
    ({"retry_backoff_seconds": [7 * 86_400 + 1]}, "/retry_backoff_seconds"),
    ({"retry_backoff_seconds": [1] * 51}, "/retry_backoff_seconds"),
    ({"retry_backoff_seconds": ["1"]}, "/retry_backoff_seconds/0"),
    ({"retry_backoff_seconds": 5}, "/retry_backoff_seconds"),
    ({"retry_on": ["2xx"]}, "/retry_on"),
    ({"retry_on": ["oops"]}, "/retry_on"),
    ({"connect_timeout_seconds": 0}, "/connect_timeout_seconds"),
    ({"timeout_seconds": 0}, "/timeout_seconds"),
    ({"timeout_seconds": 1e9}, "/timeout_seconds"),
    ({"rate_per_second": 0}, "/rate_per_second"),
    ({"rate_per_second": -1}, "/rate_per_second"),
    ({"max_in_flight": 0}, "/max_in_flight"),
    ({"max_in_flight": 1.5}, "/max_in_flight"),
    ({"description": "x" * 10_001}, "/description"),
    ({"name": ""}, "/name"),
    ({"name": " blank "}, "/name"),
    ({"name": "a\nb"}, "/name"),
    ({"name": "x" * 101}, "/name"),
    ({"name": "123"}, "/name"),
    ({"name": 7}, "/name"),
    ({"colour": "red"}, ""),
    ({"status": "paused"}, ""),
    ({"version": 3}, ""),
]
ONLY_NEW: list[tuple[dict[str, Any], str]] = [
    ({"secret": "short"}, "/secret"),
    ({"secret": "whsec_"}, "/secret"),
    ({"secret": "whsec_not*base64"}, "/secret"),
    ({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS_"}, "/secret"),
    ({"secret": "whsec_" + "A" * 400}, "/secret"),
    ({"url": None}, "/url"),
    ({"name": None}, "/name"),
]


@pytest.mark.parametrize(("wrong", "pointer"), REFUSED + ONLY_NEW, ids=lambda value: repr(value)[:80])
def test_such_a_subscriber_is_not_made(hub: Hub, tag: str, wrong: dict[str, Any], pointer: str):
    answer = hub.post("/subscribers", {"name": tag, **GOOD, **wrong})
    assert (answer.status, answer.json["pointer"]) == (422, pointer), answer
    assert tag not in [each["name"] for each in hub.get("/subscribers").json["subscribers"]]


@pytest.mark.parametrize(("wrong", "pointer"), REFUSED, ids=lambda value: repr(value)[:80])
def test_no_subscriber_becomes_like_that(hub: Hub, shared_subscriber: Any, wrong: dict[str, Any], pointer: str):
    number = shared_subscriber["id"]
    before = hub.get(f"/subscribers/{number}").json
    answer = hub.patch(f"/subscribers/{number}", wrong)
    assert (answer.status, answer.json["pointer"]) == (422, pointer), answer
    assert hub.get(f"/subscribers/{number}").json == before


@pytest.fixture
def shared_subscriber(hub: Hub) -> Any:
    """One that is not changed by any of this, so all tests of an engine have it in common."""
    name = "rules stay rules"
    known = {each["name"]: each for each in hub.get("/subscribers").json["subscribers"]}
    return known.get(name) or hub.subscribe(name, GOOD["url"], event_type="rules.none")


def test_members_that_must_be_there_are_asked_for(hub: Hub):
    for body in ({}, {"name": "x"}, {"url": GOOD["url"]}):
        answer = hub.post("/subscribers", body)
        assert (answer.status, answer.json["pointer"]) == (422, ""), answer


@pytest.mark.parametrize("raw", [b"", b"{", b'{"name": "a", "name": "b"}', b'{"name": "\\u0000"}', b'{"rate": NaN}'])
def test_what_is_no_strict_json_is_400(hub: Hub, raw: bytes):
    assert hub.post("/subscribers", raw=raw, headers={"Content-Type": "application/json"}).status == 400


def test_a_filter_that_is_too_deep_or_too_large_is_refused(hub: Hub, tag: str):
    body = {"name": tag, **GOOD}
    assert hub.post("/subscribers", {**body, "filter": {"payload.a": {"eq": deep(100)}}}).status == 422
    assert hub.post("/subscribers", {**body, "filter": {"payload.a": {"eq": deep(500)}}}).status in (400, 422)
    assert hub.post("/subscribers", {**body, "filter": {"payload.a": "x" * 70_000}}).status == 413


@pytest.mark.parametrize(
    "fine",
    [
        {"url": "http://hooks.example.com/"},
        {"url": "https://hooks.example.com:8443/a/b?c=d&e=%20"},
        {"url": "https://[2606:2800:220:1::1]/"},
        {"url": "https://93.184.216.34/"},
        {"event_type": "*"},
        {"event_type": "order.*.placed"},
        {"filter": {}},
        {"filter": {"payload.items.0.sku": {"prefix": "A"}, "type": {"in": ["a", "b"]}, "metadata.tenant": "acme"}},
        {"filter": {"payload.a": {"exists": False}, "payload.b": None, "payload.c": {"ne": 1}}},
        {"headers": {"X-Api-Key": "abc", "Authorization": "Basic dTpw"}},
        {"retry_backoff_seconds": []},
        {"retry_on": []},
        {"ordering_key": "ordering_key"},
        {"ordering_key": "metadata.tenant"},
    ],
    ids=lambda value: repr(value)[:80],
)
def test_such_a_subscriber_may_be(hub: Hub, tag: str, fine: dict[str, Any]):
    made = hub.subscribe(tag, **{"event_type": "rules.none", **GOOD, **fine})
    hub.delete(f"/subscribers/{made['id']}")
