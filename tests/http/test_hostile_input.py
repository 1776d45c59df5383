"""security.md, the lines about bodies: what is no strict JSON, too large, compressed, or not what the schema says."""

import json
from typing import Any

import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub

JSON = {"Content-Type": "application/json"}
LIMIT = 1_048_576


def nested(depth: int, inner: str = "1") -> str:
    return "[" * depth + inner + "]" * depth


def total(hub: Hub, tag: str) -> int:
    return int(hub.get("/events", tags=tag, limit=1).json["total"])


MALFORMED = {
    "nothing": b"",
    "cut off": b'{"tags": "TAG"',
    "two values": b'{"tags": "TAG"} {"tags": "TAG"}',
    "bad UTF-8": b'{"tags": "TAG", "payload": "\xff\xfe"}',
    "UTF-16": '{"tags": "TAG"}'.encode("utf-16"),
    "overlong UTF-8": b'{"tags": "TAG", "payload": "\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"tags": "TAG", "payload": "\xed\xa0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"tags": "TAG"}',
    "NaN": b'{"tags": "TAG", "payload": NaN}',
    "Infinity": b'{"tags": "TAG", "payload": [-Infinity]}',
    "a number too large": b'{"tags": "TAG", "payload": 1e999}',
    "duplicate keys": b'{"tags": "TAG", "payload": {"a": 1, "a": 1}}',
    "duplicate members": b'{"tags": "TAG", "tags": "TAG"}',
    "duplicate keys in other letters": b'{"tags": "TAG", "payload": {"a": 1, "\\u0061": 2}}',
    "NUL": b'{"tags": "TAG", "payload": "a\\u0000b"}',
    "NUL in a key": b'{"tags": "TAG", "payload": {"\\u0000": 1}}',
    "NUL in the title": b'{"tags": "TAG", "title": "\\u0000"}',
    "a bare NUL": b'{"tags": "TAG", "payload": "a\x00b"}',
    "a lone surrogate": b'{"tags": "TAG", "payload": "\\ud800"}',
    "a lone low surrogate": b'{"tags": "TAG", "payload": ["\\udc00\\ud800"]}',
    "a lone surrogate in a key": b'{"tags": "TAG", "payload": {"\\ud800": 1}}',
    "depth 65": b'{"tags": "TAG", "payload": %s}' % nested(65).encode(),
    "depth 65 with escapes": b'{"tags": "TAG", "payload": %s}' % nested(65, '"\\n"').encode(),
    "depth 100,000": b'{"tags": "TAG", "payload": %s}' % nested(100_000).encode(),
    "2^64": b'{"tags": "TAG", "payload": 18446744073709551616}',
    "-2^63 - 1": b'{"tags": "TAG", "payload": [-9223372036854775809]}',
    "an integer of 5,000 digits": b'{"tags": "TAG", "payload": %s}' % (b"9" * 5000),
    "a leading zero": b'{"tags": "TAG", "payload": 01}',
    "a trailing comma": b'{"tags": "TAG",}',
    "single quotes": b"{'tags': 'TAG'}",
    "a comment": b'{"tags": "TAG"} // done',
    "a raw tab": b'{"tags": "TAG", "payload": "\t"}',
}


@pytest.mark.parametrize("name", list(MALFORMED))
def test_what_is_no_strict_json_is_400_and_nothing_is_stored(hub: Hub, tag: str, name: str):
    body = MALFORMED[name].replace(b"TAG", tag.encode())
    answer = hub.post("/events", raw=body, headers=JSON)
    assert answer.status == 400, answer
    assert total(hub, tag) == 0


@pytest.mark.parametrize("name", ["bad UTF-8", "NaN", "duplicate keys", "NUL", "a lone surrogate", "depth 65", "2^64"])
def test_the_same_holds_inside_a_batch(hub: Hub, tag: str, name: str):
    event = MALFORMED[name].replace(b"TAG", tag.encode())
    answer = hub.post("/events/batch", raw=b'{"events": [{"tags": "%s"}, %s]}' % (tag.encode(), event), headers=JSON)
    assert answer.status == 400, answer
    assert total(hub, tag) == 0


@pytest.mark.parametrize("name", ["bad UTF-8", "NUL", "a lone surrogate"])
def test_the_same_holds_for_reports(hub: Hub, tag: str, name: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    words = {"bad UTF-8": b"\xff", "NUL": b"\\u0000", "a lone surrogate": b"\\ud800"}[name]
    body = b'{"worker_id": "w", "error_message": "%s"}' % words
    assert hub.post(f"/events/{event_id}/fail", raw=body, headers=JSON).status == 400
    assert hub.event(event_id)["status"] == "PROCESSING"


@pytest.mark.parametrize(
    "payload",
    [
        nested(64),
        nested(64, '"\\n"'),
        nested(63, '{"a\\u00e9": "\\ud83d\\ude00"}'),
        "18446744073709551615",
        '"\\\\u0000"',
    ],
)
@pytest.mark.parametrize(
    "form", ['{"tags": "TAG", "payload": PAYLOAD}', '{"events": [{"tags": "TAG", "payload": PAYLOAD}]}']
)
def test_what_is_just_within_the_limits_is_accepted(hub: Hub, tag: str, payload: str, form: str):
    body = form.replace("TAG", tag).replace("PAYLOAD", payload)
    path = "/events/batch" if "events" in form else "/events"
    answer = hub.post(path, raw=body.encode(), headers=JSON)
    assert answer.status == 201, answer
    assert hub.take(tag)["payload"] == json.loads(payload)


# ----------------------------------------------------------------------- size


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_payload_of_exactly_one_mebibyte_is_accepted_and_one_byte_more_is_413(hub: Hub, tag: str, letter: str):
    text = letter * ((LIMIT - 2) // len(letter.encode()))
    exact = json.dumps({"tags": tag, "payload": text}, ensure_ascii=False).encode()
    answer = hub.post("/events", raw=exact, headers=JSON)
    assert answer.status == 201
    assert answer.json["payload"] == text
    assert hub.take(tag)["payload"] == text
    more = json.dumps({"tags": tag, "payload": text + "x"}, ensure_ascii=False).encode()
    answer = hub.post("/events", raw=more, headers=JSON)
    assert (answer.status, answer.kind) == (413, "payload-too-large")
    assert total(hub, tag) == 1


@pytest.mark.parametrize("size", [400 * 1024, LIMIT - 2])
def test_the_limit_counts_the_payload_and_not_how_it_is_written(hub: Hub, tag: str, size: int):
    escaped = b"\\u0061" * size
    answer = hub.post("/events", raw=b'{"tags": "%s", "payload": "%s"}' % (tag.encode(), escaped), headers=JSON)
    assert answer.status == 201
    assert hub.take(tag)["payload"] == "a" * size
    answer = hub.post("/events", raw=b'{"tags": "%s", "payload": "%sbcd"}' % (tag.encode(), b"a" * LIMIT), headers=JSON)
    assert (answer.status, answer.kind) == (413, "payload-too-large")


def test_a_broadcast_needs_a_payload_and_null_is_one(hub: Hub, tag: str):
    for event in ({"event_type": tag}, {"type": tag, "tags": " , "}):
        answer = hub.post("/events", event)
        assert (answer.status, answer.json["pointer"]) == (422, "/payload"), event
        answer = hub.post("/events/batch", [{"tags": tag}, event])
        assert (answer.status, answer.json["pointer"]) == (422, "/1/payload")
    assert total(hub, tag) == 0
    assert hub.post("/events", {"event_type": tag, "payload": None}).status == 202
    assert hub.post("/events", {"tags": tag}).status == 201
    assert hub.post("/events", {"tags": tag, "event_type": tag}).status == 201


def test_a_declared_length_over_the_limit_is_413_before_anything_is_read(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(
            head("POST", "/events", sqlite_hub.port, "Content-Type: application/json", "Content-Length: 99999999999")
        )
        assert wire.answer().status == 413


def test_a_chunked_body_over_the_limit_is_413_on_counted_bytes(sqlite_hub: Hub, tag: str):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with Wire(sqlite_hub.port) as wire:
        lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        wire.send(head("POST", "/events", sqlite_hub.port, *lines))
        for _ in range(120):
            wire.send_all_it_takes(chunk)
        assert wire.answer().status == 413


def test_a_chunked_body_within_the_limit_is_read(sqlite_hub: Hub, tag: str):
    body = b'{"tags": "%s"}' % tag.encode()
    chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"
    with Wire(sqlite_hub.port) as wire:
        lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        wire.send(head("POST", "/events", sqlite_hub.port, *lines) + chunks)
        assert wire.answer().status == 201


def test_a_length_that_lies_does_not_smuggle_a_second_request(sqlite_hub: Hub, tag: str):
    """Shorter than the body: the rest is no request. Twice, or beside chunks: refused."""
    body = b'{"tags": "%s"}' % tag.encode()
    for lines in (
        ("Content-Length: 5",),
        (f"Content-Length: {len(body)}", "Content-Length: 5"),
        (f"Content-Length: {len(body)}", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Content-Length: +5",),
        ("Content-Length: 0x10",),
    ):
        with Wire(sqlite_hub.port) as wire:
            wire.send(head("POST", "/events", sqlite_hub.port, "Content-Type: application/json", *lines) + body)
            assert wire.answer().status == 400, lines
    assert total(sqlite_hub, tag) == 0


@pytest.mark.parametrize("path", ["/events/1/complete", "/events/1/fail", "/events/subscribe", "/events/1/start"])
def test_a_report_may_have_64_kibibytes(sqlite_hub: Hub, path: str):
    body = b'{"worker_id": "w"' + b" " * 65_536 + b"}"
    assert sqlite_hub.post(path, raw=body, headers=JSON).status == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
def test_a_compressed_body_is_415(sqlite_hub: Hub, tag: str, encoding: str):
    import gzip

    bomb = gzip.compress(b'{"tags": "%s", "payload": "%s"}' % (tag.encode(), b"x" * 2_000_000))
    answer = sqlite_hub.post("/events", raw=bomb, headers={**JSON, "Content-Encoding": encoding})
    assert (answer.status, answer.kind) == (415, "compressed")
    assert total(sqlite_hub, tag) == 0


# ---------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"]
)
def test_another_content_type_is_415(sqlite_hub: Hub, tag: str, kind: str | None):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = sqlite_hub.post("/events", raw=b'{"tags": "%s"}' % tag.encode(), headers=headers)
    assert answer.status == 415
    assert total(sqlite_hub, tag) == 0


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;x=y"])
def test_json_is_json_however_it_is_written(sqlite_hub: Hub, tag: str, kind: str):
    assert (
        sqlite_hub.post("/events", raw=b'{"tags": "%s"}' % tag.encode(), headers={"Content-Type": kind}).status == 201
    )


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/events", "GET, HEAD, POST"),
        ("PUT", "/events/1", "GET, HEAD"),
        ("GET", "/events/1/complete", "POST"),
        ("PATCH", "/events/subscribe", "GET, POST"),
        ("GET", "/api-keys/x", "DELETE"),
        ("OPTIONS", "/events", "GET, HEAD, POST"),
        ("TRACE", "/health", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_405_and_says_which_are_right(sqlite_hub: Hub, method: str, path: str, allow: str):
    answer = sqlite_hub(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allow)


@pytest.mark.parametrize("accept", ["text/html", "application/xml, text/*", "application/json;q=0", "image/png"])
def test_an_accept_that_cannot_be_met_is_406_and_changes_nothing(sqlite_hub: Hub, tag: str, accept: str):
    assert sqlite_hub.post("/events", {"tags": tag}, headers={"Accept": accept}).status == 406
    assert total(sqlite_hub, tag) == 0


@pytest.mark.parametrize(
    "accept", ["*/*", "application/*", "text/html, application/json;q=0.1", "application/json", ""]
)
def test_an_accept_that_can_be_met_is_met(sqlite_hub: Hub, accept: str):
    assert sqlite_hub("GET", "/events", headers={"Accept": accept}).status == 200


@pytest.mark.parametrize(
    "path", ["/index.html", "/nothing", "/events/1/explode", "/events/", "/admin/../events", "/%2e%2e/etc/passwd"]
)
def test_an_unknown_path_is_404(sqlite_hub: Hub, path: str):
    assert sqlite_hub.get(path).status == 404


# --------------------------------------------------------------------- schema


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ("text", ""),
        (7, ""),
        (None, ""),
        ({"tags": 7}, "/tags"),
        ({"tags": ["a", 7]}, "/tags/1"),
        ({"tags": "TAG", "metadata": {"a": 1}}, "/metadata"),
        ({"tags": "TAG", "title": 7}, "/title"),
        ({"tags": "TAG", "title": "x" * 10_001}, "/title"),
        ({"tags": "TAG", "priority": 1001}, "/priority"),
        ({"tags": "TAG", "colour": "red"}, ""),
        ({"tags": "a b"}, "/tags"),
        ({"tags": "ok,a/b"}, "/tags"),
        ({"tags": "é"}, "/tags"),
        ({"tags": ["x" * 129]}, "/tags"),
        ({"event_type": "a b"}, "/event_type"),
        ({"event_type": ""}, "/event_type"),
        ({"event_type": "../etc"}, "/event_type"),
        ({"event_type": "x" * 129}, "/event_type"),
        ({"event_type": "a\nb"}, "/event_type"),
        ({"event_type": "a\n"}, "/event_type"),
        ({"type": "a*"}, "/type"),
    ],
)
def test_what_the_schema_does_not_allow_is_422_with_a_pointer(hub: Hub, tag: str, body: Any, pointer: str):
    raw = json.dumps(body).replace("TAG", tag).encode()
    answer = hub.post("/events", raw=raw, headers=JSON)
    assert answer.status == 422, answer
    found = answer.json["pointer"]
    assert found.startswith(pointer) if pointer else found == "", found
    assert total(hub, tag) == 0


@pytest.mark.parametrize("name", ["a", "A.b:c_d-e", "x" * 128, "0", "..", "-"])
def test_every_letter_of_the_alphabet_is_allowed(hub: Hub, tag: str, name: str):
    event = hub.publish(tags=f"{tag},{name}", event_type=name)
    assert hub.event(event["id"])["event_type"] == name


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/events/1/complete", {}),
        ("/events/1/complete", {"worker_id": ""}),
        ("/events/1/complete", {"worker_id": "w" * 201}),
        ("/events/1/complete", {"worker_id": "w", "fence": 0}),
        ("/events/1/complete", {"worker_id": "w", "execution_time_ms": -1}),
        ("/events/1/fail", {"worker_id": "w", "error_message": "x" * 10_001}),
        ("/events/1/heartbeat", {"worker_id": "w", "lease_seconds": 0}),
        ("/events/complete", {"reports": []}),
        ("/events/complete", {"reports": [{"event_id": 1, "worker_id": "w"}] * 1001}),
        ("/events/fail", {"reports": [{"event_id": 0, "worker_id": "w"}]}),
        ("/events/subscribe", {"tags": "a", "worker_id": "w", "wait": 61}),
        ("/events/subscribe", {"tags": "a/b", "worker_id": "w"}),
    ],
)
def test_bad_reports_are_422_with_a_pointer(sqlite_hub: Hub, path: str, body: Any):
    answer = sqlite_hub.post(path, body)
    assert answer.status == 422
    assert "pointer" in answer.json


# --------------------------------------------------------------------- limits


def test_beyond_its_rate_a_key_gets_429_and_when_to_come_again(make_hub: MakeHub):
    hub = make_hub("sqlite", "--rate-per-second", "0.05", "--rate-burst", "5")
    statuses = [hub.get("/events").status for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    refused = hub.get("/events")
    assert (refused.status, refused.kind) == (429, "rate-limit")
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert hub.get("/health").status == 200


def test_each_key_has_a_rate_of_its_own(make_hub: MakeHub):
    hub = make_hub("sqlite", "--rate-per-second", "0.05", "--rate-burst", "3")
    root = hub.with_key(hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"])
    other = hub.with_key(root.post("/api-keys", {"name": "b", "scopes": ["read"]}).json["key"])
    assert [root.get("/events").status for _ in range(3)] == [200, 200, 429]
    assert [other.get("/events").status for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
def test_beyond_the_backlog_publishing_is_503_until_work_was_done(make_hub: MakeHub, engine: str, tag: str):
    hub = make_hub(engine, "--max-backlog", "5")
    ids = [hub.publish(tags=tag)["id"] for _ in range(5)]
    for path, body in (("/events", {"tags": tag}), ("/events/batch", [{"tags": tag}])):
        refused = hub.post(path, body)
        assert (refused.status, refused.kind) == (503, "backlog-limit")
        assert int(refused.headers["retry-after"]) >= 1
    assert total(hub, tag) == 5
    hub.take(tag, "w")
    assert hub.complete(ids[0], "w").status == 200
    while (answer := hub.post("/events", {"tags": tag})).status == 503:
        assert answer.kind == "backlog-limit"
    assert answer.status == 201


def test_when_the_disk_has_no_room_left_publishing_is_503_and_work_goes_on(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite")
    event_id = hub.publish(tags=tag)["id"]
    full = make_hub("sqlite", "--min-free-disk-mb", "999999999", db=hub.server.db)
    refused = full.post("/events", {"tags": tag})
    assert (refused.status, refused.kind) == (503, "disk-reserve")
    assert int(refused.headers["retry-after"]) >= 1
    assert full.take(tag, "w")["id"] == event_id
    assert full.complete(event_id, "w").status == 200
