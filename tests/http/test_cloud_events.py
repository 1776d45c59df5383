"""CloudEvents come in in their three modes, as the public library makes them."""

import json
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from tests.http.api import Answer
from tests.http.conftest import Hub

BATCH = "application/cloudevents-batch+json"
STRUCTURED = "application/cloudevents+json"


def made(tag: str | None, data: Any = None, **attributes: Any) -> CloudEvent:
    given = {"type": "com.example.order", "source": "/shop", "datacontenttype": "application/json", **attributes}
    if tag is not None:
        given["tags"] = tag
    return CloudEvent(given, {"order": 7} if data is None else data)


def send(hub: Hub, message: HTTPMessage, path: str = "/events") -> Answer:
    return hub.post(path, raw=message.body, headers=dict(message.headers))


@pytest.mark.parametrize("mode", [to_binary_event, to_structured_event])
def test_a_cloud_event_with_tags_is_work(hub: Hub, tag: str, mode: Any):
    event = made(tag, subject="order 7 – ü")
    answer = send(hub, mode(event))
    assert answer.status == 201
    body = answer.json
    assert (body["event_type"], body["payload"], body["tags"]) == ("com.example.order", {"order": 7}, tag)
    metadata = body["metadata"]
    assert (metadata["ce-source"], metadata["ce-id"]) == ("/shop", event.get_id())
    assert metadata["ce-subject"] == "order 7 – ü"
    taken = hub.take(tag)
    assert (taken["id"], taken["payload"], taken["metadata"]) == (body["id"], {"order": 7}, metadata)


@pytest.mark.parametrize("mode", [to_binary_event, to_structured_event])
def test_a_cloud_event_without_tags_is_a_broadcast(hub: Hub, mode: Any):
    assert send(hub, mode(made(None))).status == 202


def test_both_modes_of_one_event_are_the_same_event(hub: Hub, tag: str):
    event = made(tag)
    first, again = send(hub, to_binary_event(event)), send(hub, to_binary_event(event))
    assert (first.status, again.status) == (201, 200)
    assert again.json["id"] == first.json["id"]
    structured = send(hub, to_structured_event(event))
    assert (structured.status, structured.json["id"]) == (200, first.json["id"])


def test_the_same_id_from_another_source_is_another_event(hub: Hub, tag: str):
    first = send(hub, to_structured_event(made(tag, id="1", source=f"/{tag}/a")))
    other = send(hub, to_structured_event(made(tag, id="1", source=f"/{tag}/b")))
    assert (first.status, other.status) == (201, 201)
    changed = send(hub, to_structured_event(made(tag, {"order": 8}, id="1", source=f"/{tag}/a")))
    assert (changed.status, changed.kind) == (422, "idempotency-conflict")


@pytest.mark.parametrize("path", ["/events", "/events/batch"])
def test_a_batch_of_cloud_events(hub: Hub, tag: str, path: str):
    events = [json.loads(to_structured_event(made(tag, {"n": n})).body) for n in range(3)]
    answer = hub.post(path, raw=json.dumps(events).encode(), headers={"Content-Type": BATCH})
    assert answer.status == 201
    taken = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=5).json["events"]
    assert [event["payload"] for event in taken] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [event["id"] for event in taken] == [event["id"] for event in answer.json["events"]]


def test_a_batch_with_one_bad_event_stores_nothing(hub: Hub, tag: str):
    events = [json.loads(to_structured_event(made(tag)).body) for _ in range(3)]
    del events[1]["source"]
    answer = hub.post("/events/batch", raw=json.dumps(events).encode(), headers={"Content-Type": BATCH})
    assert (answer.status, answer.json["pointer"]) == (422, "/1/source")
    assert hub.get("/events", tags=tag).json["total"] == 0


@pytest.mark.parametrize("many", [0, 1001])
def test_a_batch_has_1_to_1000_events(hub: Hub, tag: str, many: int):
    events = [{"specversion": "1.0", "id": f"{n}", "source": "/s", "type": "t", "tags": tag} for n in range(many)]
    answer = hub.post("/events/batch", raw=json.dumps(events).encode(), headers={"Content-Type": BATCH})
    assert answer.status == 422
    assert hub.get("/events", tags=tag).json["total"] == 0


def test_data_that_is_no_json_arrives_in_base64_or_as_text(hub: Hub, tag: str):
    binary = send(hub, to_binary_event(made(tag, b"\x00\xff\x01", datacontenttype="application/octet-stream")))
    assert (binary.status, binary.json["payload"]) == (201, "AP8B")
    structured = send(hub, to_structured_event(made(tag, b"\x00\xff\x01", datacontenttype="application/octet-stream")))
    assert (structured.status, structured.json["payload"]) == (201, "AP8B")
    text = send(hub, to_binary_event(made(tag, "plain – text", datacontenttype="text/plain")))
    assert (text.status, text.json["payload"]) == (201, "plain – text")


def test_an_event_without_data_has_no_payload(hub: Hub, tag: str):
    answer = hub.post(
        "/events",
        raw=b"",
        headers={"ce-specversion": "1.0", "ce-id": tag, "ce-source": "/s", "ce-type": "t", "ce-tags": tag},
    )
    assert (answer.status, answer.json["payload"]) == (201, None)


def test_a_partition_key_is_the_ordering_key(hub: Hub, tag: str):
    answer = send(hub, to_structured_event(made(tag, partitionkey=f"key-{tag}")))
    assert answer.json["ordering_key"] == f"key-{tag}"


@pytest.mark.parametrize("missing", ["id", "source", "type", "specversion"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_an_event_without_a_required_attribute_is_422(sqlite_hub: Hub, tag: str, missing: str, mode: str):
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "tags": tag}
    del attributes[missing]
    if mode == "structured":
        body = json.dumps({**attributes, "data": {}}).encode()
        answer = sqlite_hub.post("/events", raw=body, headers={"Content-Type": STRUCTURED})
        assert (answer.status, answer.json["pointer"]) == (422, f"/{missing}")
    else:
        headers = {f"ce-{name}": value for name, value in attributes.items()}
        answer = sqlite_hub.post("/events", raw=b"{}", headers={"Content-Type": "application/json", **headers})
        assert answer.status == 422
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"specversion": "0.3"},
        {"type": "no/slash"},
        {"id": 7},
        {"source": ""},
        {"Upper": "x"},
        {"nested": {"a": 1}},
        {"data": 1, "data_base64": "AA=="},
        {"data_base64": "not base64!"},
        {"tags": "a b"},
    ],
)
def test_an_event_that_breaks_the_specification_is_422(sqlite_hub: Hub, change: dict[str, Any]):
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **change}
    answer = sqlite_hub.post("/events", raw=json.dumps(event).encode(), headers={"Content-Type": STRUCTURED})
    assert answer.status == 422


@pytest.mark.parametrize("kind", [STRUCTURED, BATCH])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a":1,"a":2}', b"NaN"])
def test_an_event_that_is_no_json_is_400(sqlite_hub: Hub, kind: str, body: bytes):
    assert sqlite_hub.post("/events", raw=body, headers={"Content-Type": kind}).status == 400


# ------------------------------------------------------ one event, any mode

JSON, OCTETS = "application/json", "application/octet-stream"
KINDS: dict[str, tuple[str | None, bytes, dict[str, Any]]] = {
    "JSON": ("application/json", b'{"a": 1, "b": 2}', {"data": {"b": 2, "a": 1}}),
    "JSON with its type": ("application/json; charset=utf-8", b"[1]", {"data": [1], "datacontenttype": JSON}),
    "JSON in base64": ("application/json", b'{"a": 1}', {"data_base64": "eyJhIjogMX0="}),
    "JSON of a kind": ("text/json", b"[1]", {"data": [1], "datacontenttype": "text/json"}),
    "text": ("text/plain", "ü".encode(), {"data": "ü", "datacontenttype": "text/plain"}),
    "text in base64": ("text/plain", b"abc", {"data_base64": "YWJj", "datacontenttype": "text/plain"}),
    "bytes": (OCTETS, b"\xff", {"data_base64": "/w==", "datacontenttype": OCTETS}),
    "nothing": (None, b"", {}),
    "nothing with its type": ("application/json", b"", {"data": None}),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("first", range(3))
def test_an_event_is_the_same_in_whichever_mode_it_comes(hub: Hub, tag: str, kind: str, first: int):
    media_type, raw, members = KINDS[kind]
    attributes = {"specversion": "1.0", "id": tag, "source": "/shop", "type": "order", "tags": tag, "level": "7"}
    headers = {f"ce-{name}": value for name, value in attributes.items()}
    event = {**attributes, "level": 7, **members}
    sent: list[tuple[bytes, dict[str, str]]] = [
        (raw, headers | ({} if media_type is None else {"Content-Type": media_type})),
        (json.dumps(event).encode(), {"Content-Type": STRUCTURED, **headers, "ce-id": "does not count"}),
        (json.dumps([event]).encode(), {"Content-Type": BATCH}),
    ]
    answers = [hub.post("/events", raw=body, headers=given) for body, given in sent[first:] + sent[:first]]
    assert {answer.status for answer in answers} <= {200, 201}
    ids = {event["id"] for answer in answers for event in answer.json.get("events", [answer.json])}
    assert len(ids) == 1
    assert hub.get("/events", tags=tag).json["total"] == 1
