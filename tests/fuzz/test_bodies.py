"""Every route that takes a body: random bytes, damaged JSON and bodies that are nearly right never end in a 5xx."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventhub.http.operations import Operation
from eventhub.http.routes import OPERATIONS
from tests.fuzz.conftest import InProcess
from tests.fuzz.effort import effort
from tests.fuzz.mangling import changed, damaged

WRITING = [operation for operation in OPERATIONS if operation.method not in ("GET", "HEAD")]
WITH_BODY = [operation for operation in WRITING if operation.body is not None]
KINDS = st.sampled_from(
    [b"application/json", b"application/cloudevents+json", b"application/cloudevents-batch+json", b"text/plain", b"",
     b"application/json; charset=utf-16", b"APPLICATION/JSON", b"\xff"]
)  # fmt: skip
IDS = st.sampled_from(
    [
        "1",
        "2",
        "3",
        "5",
        "0",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "x",
        "%00",
        "%ff",
        "%2F",
        "%C3%A9",
        "k",
        "1e3",
        "%31",
    ]
)
CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/a",
    "type": "a.b",
    "data": {"a": 1},
    "partitionkey": "k",
    "tags": "a",
}
HEADERS = st.sampled_from([
    b"ce-id", b"ce-source", b"ce-type", b"ce-specversion", b"ce-tags", b"ce-partitionkey", b"ce-x", b"idempotency-key",
    b"x-idempotency-key", b"content-type", b"traceparent", b"content-encoding",
])  # fmt: skip
HEADER_VALUES = st.binary(max_size=8) | st.sampled_from(
    [b"1.0", b"a", b"", b"%00", b"%ff", b"\xff", b"%ED%A0%80", b"a" * 300, b"text/plain", b"application/json"]
)
QUERIED = st.sampled_from([
    b"1", b"0", b"-1", b"9223372036854775808", b"start", b"a,b", b"%00", b"%ff", b"null", b"2026-01-01T00:00:00Z",
    b"NaN", b"0001-01-01T00:00:00%2B23:59", b"9999-12-31T23:59:59-23:59", b"PENDING", b"1e400", b"%ED%A0%80", b"*",
])  # fmt: skip
REQUESTS = [(operation, operation.example.body or {}) for operation in WITH_BODY]


def sent(ask: InProcess, operation: Operation, number: str, body: bytes, **more: Any) -> int:
    path = operation.path.replace("{id}", number).replace("{key}", number).replace("{key_id}", number)
    status, answer = ask(operation.method, path, body, **more)
    assert status < 500, (operation.method, path, body, answer)
    if status >= 400:
        assert json.loads(answer)["status"] == status
    return status


@given(data=st.data(), operation=st.sampled_from(WITH_BODY), number=IDS, kind=KINDS)
@effort(150)
def test_bytes_never_end_in_an_accident(
    ask: InProcess, data: Any, operation: Operation, number: str, kind: bytes
) -> None:
    body = data.draw(st.binary(max_size=30) | damaged())
    sent(ask, operation, number, body, headers={b"content-type": kind} if kind else {})


@given(data=st.data(), request=st.sampled_from(REQUESTS), number=IDS)
@effort(250)
def test_bodies_that_are_nearly_right_never_end_in_an_accident(
    ask: InProcess, data: Any, request: tuple[Operation, Any], number: str
) -> None:
    operation, right = request
    body = data.draw(changed(right))
    if isinstance(body, dict) and body.get("wait"):
        body["wait"] = 0  # or it would wait for work
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    sent(ask, operation, number, raw, headers={b"content-type": b"application/json"})


@given(changed(CLOUD_EVENT), st.booleans())
@effort(100)
def test_cloud_events_that_are_nearly_right_never_end_in_an_accident(ask: InProcess, event: Any, batch: bool) -> None:  # noqa: FBT001
    kind = b"application/cloudevents-batch+json" if batch else b"application/cloudevents+json"
    raw = json.dumps([event, CLOUD_EVENT] if batch else event).encode()
    status, answer = ask("POST", "/events", raw, headers={b"content-type": kind})
    assert status < 500, (raw, answer)


@given(st.dictionaries(HEADERS, HEADER_VALUES), damaged())
@example({b"ce-specversion": b"1.0", b"ce-id": b"1", b"ce-source": b"%00", b"ce-type": b"a"}, b"1")
@effort(150)
def test_headers_of_publishers_never_end_in_an_accident(
    ask: InProcess, headers: dict[bytes, bytes], body: bytes
) -> None:
    status, answer = ask("POST", "/events", body, headers=headers)
    assert status < 500, (headers, body, answer)


@given(
    data=st.data(),
    operation=st.sampled_from([each for each in OPERATIONS if not each.streams and each.path != "/metrics"]),
    number=IDS,
)
@effort(150)
def test_queries_and_cursors_never_end_in_an_accident(
    ask: InProcess, data: Any, operation: Operation, number: str
) -> None:
    names = [name for name in getattr(operation.query, "__struct_fields__", ()) if name != "wait"] + ["x"]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(names), QUERIED), max_size=4))
    query = b"&".join(name.encode() + b"=" + given for name, given in pairs)
    sent(ask, operation, number, b"", query=query, headers={b"content-type": b"application/json"})


def test_the_routes_are_all_there() -> None:
    assert len(WITH_BODY) >= 15
    assert {"POST", "PATCH"} <= {operation.method for operation in WITH_BODY}


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.name)
def test_the_examples_are_right_so_that_what_is_near_them_is_worth_trying(ask: InProcess, operation: Operation) -> None:
    raw = json.dumps(operation.example.body or {}).encode()
    assert sent(ask, operation, "1", raw, headers={b"content-type": b"application/json"}) not in (400, 415)
