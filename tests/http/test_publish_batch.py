"""POST /events/batch: up to 1,000 events, all of them or none."""

from typing import Any

import pytest

from tests.http.conftest import Hub


def total(hub: Hub, tag: str) -> int:
    return int(hub.get("/events", tags=tag, limit=1).json["total"])


def test_a_batch_is_published_in_its_order(hub: Hub, tag: str):
    answer = hub.post("/events/batch", {"events": [{"tags": tag, "payload": n, "title": f"{n}"} for n in range(50)]})
    assert answer.status == 201
    events = answer.json["events"]
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids))
    assert all(event == {"id": event["id"], "duplicate": False} for event in events)
    taken = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=50).json["events"]
    assert [(event["id"], event["payload"]) for event in taken] == list(zip(ids, range(50), strict=True))


def test_a_bare_list_is_a_batch_too(hub: Hub, tag: str):
    assert len(hub.post("/events/batch", [{"tags": tag}, {"tags": tag}]).json["events"]) == 2


def test_a_thousand_are_accepted_and_one_more_is_422_and_stores_nothing(hub: Hub, tag: str):
    assert hub.post("/events/batch", {"events": [{"tags": tag}] * 1000}).status == 201
    assert total(hub, tag) == 1000
    answer = hub.post("/events/batch", {"events": [{"tags": f"{tag}-more"}] * 1001})
    assert (answer.status, answer.json["pointer"]) == (422, "/events")
    bare = hub.post("/events/batch", [{"tags": f"{tag}-more"}] * 1001)
    assert bare.status == 422
    assert total(hub, f"{tag}-more") == 0


def test_an_empty_batch_is_422(hub: Hub):
    assert hub.post("/events/batch", {"events": []}).status == 422
    assert hub.post("/events/batch", []).status == 422


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"tags": "no spaces allowed"}, 422),
        ({"event_type": "no/slashes"}, 422),
        ({}, 422),
        ({"tags": 7}, 422),
        ({"tags": "{tag}", "colour": "red"}, 422),
        ({"tags": "{tag}", "payload": "x" * 1_048_577}, 413),
        ({"tags": "{tag}", "deliver_at": "tomorrow"}, 422),
        ({"tags": "{tag}", "priority": 1.5}, 422),
    ],
)
@pytest.mark.parametrize("place", [0, 3, 6])
def test_one_bad_event_refuses_the_whole_batch_and_is_pointed_to(
    hub: Hub, tag: str, bad: dict[str, Any], status: int, place: int
):
    made = {name: value.format(tag=tag) if isinstance(value, str) else value for name, value in bad.items()}
    events: list[Any] = [{"tags": tag, "payload": n} for n in range(6)]
    events.insert(place, made)
    answer = hub.post("/events/batch", {"events": events})
    assert answer.status == status
    if status == 422:
        assert answer.json["pointer"].startswith(f"/events/{place}")
    assert total(hub, tag) == 0


def test_a_conflicting_key_in_a_batch_refuses_all_of_it(hub: Hub, tag: str):
    hub.publish(tags=tag, idempotency_key=f"key-{tag}", payload="first")
    events = [{"tags": tag}, {"tags": tag, "idempotency_key": f"key-{tag}", "payload": "other"}]
    answer = hub.post("/events/batch", {"events": events})
    assert (answer.status, answer.kind) == (422, "idempotency-conflict")
    assert total(hub, tag) == 1


@pytest.mark.parametrize("length", [250, 251, 252, 253, 255])
def test_a_key_of_any_length_stands_for_a_whole_batch(hub: Hub, tag: str, length: int):
    key = f"{tag}-{length}-".ljust(length, "k")
    events = [{"tags": tag, "payload": n} for n in range(12)]
    first, again = (
        hub.post("/events/batch", {"events": events}, headers={"Idempotency-Key": key}).json["events"] for _ in range(2)
    )
    assert [event["id"] for event in again] == [event["id"] for event in first]
    assert [event["duplicate"] for event in first + again] == [False] * 12 + [True] * 12
    too_long = hub.post("/events/batch", {"events": events}, headers={"Idempotency-Key": "k" * 256})
    assert too_long.status == 422
    assert total(hub, tag) == 12


def test_known_keys_in_a_batch_are_told_apart_from_new_ones(hub: Hub, tag: str):
    known = hub.publish(tags=tag, idempotency_key=f"key-{tag}")["id"]
    events = [{"tags": tag}, {"tags": tag, "idempotency_key": f"key-{tag}"}, {"tags": tag}]
    made = hub.post("/events/batch", {"events": events}).json["events"]
    assert [event["duplicate"] for event in made] == [False, True, False]
    assert made[1]["id"] == known
    assert total(hub, tag) == 3


def test_work_and_broadcasts_may_be_mixed(hub: Hub, tag: str):
    made = hub.post(
        "/events/batch", {"events": [{"tags": tag}, {"event_type": "a.b", "payload": 1}, {"tags": tag, "type": "c"}]}
    )
    assert made.status == 201
    first, second, third = (event["id"] for event in made.json["events"])
    assert [hub.event(event_id).get("event_type") for event_id in (first, second, third)] == [None, "a.b", "c"]
    assert [hub.take(tag)["id"], hub.take(tag)["id"]] == [first, third]


def test_concurrent_batches_are_each_whole(hub: Hub, tag: str):
    from concurrent.futures import ThreadPoolExecutor

    def batch(number: int) -> list[int]:
        events = [{"tags": tag, "payload": number}] * 20
        return [event["id"] for event in hub.post("/events/batch", {"events": events}).json["events"]]

    with ThreadPoolExecutor(10) as pool:
        ids = [event_id for made in pool.map(batch, range(10)) for event_id in made]
    assert len(set(ids)) == 200
    assert total(hub, tag) == 200
