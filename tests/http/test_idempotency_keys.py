"""Publishing with an idempotency key: the same again is the first event, something else is refused."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.http.api import Answer
from tests.http.conftest import Hub


def publish(hub: Hub, key: str, name: str = "Idempotency-Key", **event: Any) -> Answer:
    return hub.post("/events", event, headers={name: key})


def test_the_same_key_and_body_is_200_and_the_first_event(hub: Hub, tag: str):
    event: dict[str, Any] = {"tags": tag, "payload": {"a": 1, "b": [1, 2]}, "title": "Once"}
    first = publish(hub, f"key-{tag}", **event)
    again = publish(hub, f"key-{tag}", **event)
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json
    assert first.json["idempotency_key"] == f"key-{tag}"
    assert hub.get("/events", tags=tag).json["total"] == 1


def test_the_first_event_is_answered_as_it_stands_now(hub: Hub, tag: str):
    event_id = publish(hub, tag, tags=tag).json["id"]
    hub.complete(hub.take(tag, "w")["id"], "w")
    again = publish(hub, tag, tags=tag)
    assert (again.status, again.json["id"], again.json["status"]) == (200, event_id, "COMPLETED")
    assert hub.take(tag, "w") is None


@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"a": 2}},
        {"title": "Other"},
        {"event_type": "x"},
        {"metadata": {"a": "b"}},
        {"ordering_key": "o"},
        {"priority": 5},
        {"delay_seconds": 60},
        {"deliver_at": "2030-01-01T00:00:00Z"},
    ],
)
def test_the_same_key_with_another_body_is_422_and_stores_nothing(hub: Hub, tag: str, other: dict):
    assert publish(hub, tag, tags=tag, payload={"a": 1}).status == 201
    answer = publish(hub, tag, **{"tags": tag, "payload": {"a": 1}, **other})
    assert (answer.status, answer.kind) == (422, "idempotency-conflict")
    assert publish(hub, tag, tags=f"{tag}-other", payload={"a": 1}).status == 422
    assert hub.get("/events", tags=f"{tag},{tag}-other").json["total"] == 1


def test_header_alias_and_member_are_the_same_key(hub: Hub, tag: str):
    first = publish(hub, tag, tags=tag)
    alias = publish(hub, tag, name="X-Idempotency-Key", tags=tag)
    member = hub.post("/events", {"tags": tag, "idempotency_key": tag})
    assert (alias.status, member.status) == (200, 200)
    assert alias.json["id"] == member.json["id"] == first.json["id"]
    both = hub.post("/events", {"tags": tag, "idempotency_key": f"{tag}-other"}, headers={"Idempotency-Key": tag})
    assert both.status == 422


@pytest.mark.parametrize("broadcast", [False, True])
def test_twenty_racing_publishers_make_one_event(hub: Hub, tag: str, broadcast: bool):  # noqa: FBT001
    event: dict[str, Any] = {"event_type": tag} if broadcast else {"tags": tag}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: publish(hub, f"race-{tag}", **event, payload=[1]), range(20)))
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200] * 19 + [202 if broadcast else 201]
    assert len({answer.json["id"] for answer in answers}) == 1


def test_racing_publishers_with_different_bodies_get_one_event_and_422(hub: Hub, tag: str):
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: publish(hub, f"race-{tag}", tags=tag, payload=n % 2), range(20)))
    winner = next(answer for answer in answers if answer.status == 201).json
    for number, answer in enumerate(answers):
        wanted = {201, 200} if number % 2 == winner["payload"] else {422}
        assert answer.status in wanted
    assert hub.get("/events", tags=tag).json["total"] == 1


def test_other_keys_and_no_keys_make_other_events(hub: Hub, tag: str):
    ids = {publish(hub, f"{tag}-{n}", tags=tag).json["id"] for n in range(3)}
    ids |= {hub.publish(tags=tag)["id"] for _ in range(3)}
    assert len(ids) == 6


@pytest.mark.parametrize("key", ["", "   ", "k" * 256])
def test_a_key_that_is_empty_or_too_long_is_422(sqlite_hub: Hub, tag: str, key: str):
    assert publish(sqlite_hub, key, tags=tag).status == 422
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


def test_a_key_of_a_batch_stands_for_each_of_its_events(hub: Hub, tag: str):
    events = {"events": [{"tags": tag, "payload": n} for n in range(3)]}
    first = hub.post("/events/batch", events, headers={"Idempotency-Key": f"batch-{tag}"})
    again = hub.post("/events/batch", events, headers={"Idempotency-Key": f"batch-{tag}"})
    assert [event["duplicate"] for event in first.json["events"]] == [False] * 3
    assert [event["duplicate"] for event in again.json["events"]] == [True] * 3
    assert [e["id"] for e in first.json["events"]] == [e["id"] for e in again.json["events"]]
    assert hub.get("/events", tags=tag).json["total"] == 3


SAME = [
    ({"a": 1, "b": {"c": [1, {"x": 1, "y": 2}], "d": None}}, {"b": {"d": None, "c": [1, {"y": 2, "x": 1}]}, "a": 1}),
    ({"price": 200, "tax": [0, -5]}, {"tax": [-0.0, -5.0], "price": 200.0}),
    (1e3, 1000),
]


@pytest.mark.parametrize(("first", "second"), SAME)
@pytest.mark.parametrize("alone", [True, False])
def test_what_is_equal_as_a_value_is_the_same_event(hub: Hub, tag: str, first: Any, second: Any, alone: bool):  # noqa: FBT001
    wanted = [
        {"tags": tag, "payload": first, "idempotency_key": tag, "metadata": {"a": "1", "b": "2"}},
        {"idempotency_key": tag, "metadata": {"b": "2", "a": "1"}, "payload": second, "tags": tag},
    ]
    if alone:
        answers = [hub.post("/events", event) for event in wanted]
        assert [answer.status for answer in answers] == [201, 200]
        assert answers[0].json["id"] == answers[1].json["id"]
        assert answers[1].json["payload"] == first
    else:
        (one, other) = hub.post("/events/batch", {"events": wanted}).json["events"]
        assert (one["id"], one["duplicate"], other["duplicate"]) == (other["id"], False, True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        (0, False),
        (1, 1.5),
        ({"a": None}, {}),
        ("1.0", "1"),
        (2**53 + 1, 2.0**53),
    ],
)
def test_what_is_not_equal_as_a_value_is_another_event(hub: Hub, tag: str, first: Any, second: Any):
    assert publish(hub, tag, tags=tag, payload=first).status == 201
    assert publish(hub, tag, tags=tag, payload=second).status == 422


def test_the_same_text_in_other_letters_is_the_same_event(hub: Hub, tag: str):
    bodies = ['{"tags": "%s", "payload": {"é": "a/b"}}'.encode(), b'{"payload": {"\\u00e9": "a\\/b"}, "tags": "%s"}']
    headers = {"Idempotency-Key": tag, "Content-Type": "application/json"}
    answers = [hub.post("/events", raw=body % tag.encode(), headers=headers) for body in bodies]
    assert [answer.status for answer in answers] == [201, 200]
