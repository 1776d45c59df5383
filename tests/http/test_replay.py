"""POST /events/{id}/replay: an event is published again, as a new one that is linked to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.http.conftest import Hub, MakeHub
from tests.http.receiver import Receiver

EVENT = {
    "title": "Order",
    "description": "An order was placed",
    "payload": {"order": 7, "lines": [1, 2.5, "ü"]},
    "metadata": {"tenant": "acme"},
    "ordering_key": "customer-7",
}
SAME = ("title", "description", "payload", "ordering_key", "event_type")


def test_a_broadcast_is_published_again_with_a_link_to_the_first(hub: Hub):
    first = hub.post("/events", {**EVENT, "event_type": "order.placed"}).json
    answer = hub.post(f"/events/{first['id']}/replay")
    assert answer.status == 202
    again = answer.json
    assert again["id"] > first["id"]
    assert again["status"] == "PENDING"
    assert [again[name] for name in SAME] == [first[name] for name in SAME]
    assert again["metadata"] == {"tenant": "acme", "replay_of": str(first["id"])}
    assert hub.event(again["id"])["payload"] == first["payload"]
    assert "replay_of" not in hub.event(first["id"])["metadata"]


def test_work_is_work_again(hub: Hub, tag: str):
    first = hub.publish(tags=f"{tag}, other", payload=1)
    hub.complete(hub.take(tag)["id"])
    answer = hub.post(f"/events/{first['id']}/replay", {})
    assert (answer.status, answer.json["tags"]) == (201, f"{tag}, other")
    assert "event_type" not in answer.json
    taken = hub.take(tag)
    assert (taken["id"], taken["metadata"]) == (answer.json["id"], {"replay_of": str(first["id"])})
    assert hub.event(first["id"])["status"] == "COMPLETED"


def test_the_same_key_replays_once_however_often_it_is_sent(hub: Hub, tag: str):
    first = hub.publish(tags=tag, idempotency_key=f"own-{tag}")
    path, headers = f"/events/{first['id']}/replay", {"Idempotency-Key": f"replay-{tag}"}

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: hub.post(path, headers=headers), range(16)))
    assert sorted(answer.status for answer in answers) == [200] * 15 + [201]
    (made,) = {answer.json["id"] for answer in answers}
    assert hub.post(path).json["id"] != made
    assert hub.get("/events", tags=tag).json["total"] == 3


def test_the_key_of_another_event_is_422(hub: Hub, tag: str):
    first, second = hub.publish(tags=tag, payload=1), hub.publish(tags=tag, payload=2)
    headers = {"Idempotency-Key": tag}
    assert hub.post(f"/events/{first['id']}/replay", headers=headers).status == 201
    answer = hub.post(f"/events/{second['id']}/replay", headers=headers)
    assert (answer.status, answer.kind) == (422, "idempotency-conflict")


def test_a_replay_can_be_replayed(hub: Hub):
    first = hub.post("/events", {"event_type": "order.placed", "payload": {}}).json
    second = hub.post(f"/events/{first['id']}/replay").json
    third = hub.post(f"/events/{second['id']}/replay").json
    assert third["metadata"] == {"replay_of": str(second["id"])}


def test_a_replay_for_chosen_subscribers_goes_to_them_alone_whatever_they_asked_for(
    webhooks: Hub, receiver: Receiver, tag: str
):
    wants = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    other = webhooks.subscribe(f"{tag}-other", f"{receiver.url}/{tag}-other", event_type=f"{tag}.y")
    first = webhooks.broadcast(f"{tag}.x", payload=7)
    receiver.wait(f"/{tag}")
    body = {"subscribers": [other["id"], other["id"]]}
    answers = [webhooks.post(f"/events/{first}/replay", body, headers={"Idempotency-Key": tag}) for _ in range(2)]
    assert [answer.status for answer in answers] == [202, 200]
    (got,) = receiver.wait(f"/{tag}-other")
    assert (got.json["type"], got.json["data"]) == (f"{tag}.x", 7)
    again = answers[0].json["id"]
    webhooks.until(f"/events/{again}", lambda event: event["status"] == "COMPLETED")
    (message,) = webhooks.get("/messages", event_id=again).json["messages"]
    assert message["subscriber_id"] == other["id"]
    assert len(receiver.at(f"/{tag}-other")) == 1
    elsewhere = webhooks.post(
        f"/events/{first}/replay", {"subscribers": [wants["id"]]}, headers={"Idempotency-Key": tag}
    )
    assert (elsewhere.status, elsewhere.kind) == (422, "idempotency-conflict")
    assert len(receiver.at(f"/{tag}")) == 1


def test_a_replay_without_names_goes_to_all_who_want_it_now(webhooks: Hub, receiver: Receiver, tag: str):
    first = webhooks.broadcast(f"{tag}.x", payload=7)
    webhooks.until(f"/events/{first}", lambda event: event["status"] == "COMPLETED")
    webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.*")
    assert webhooks.post(f"/events/{first}/replay").status == 202
    (got,) = receiver.wait(f"/{tag}")
    assert got.json["data"] == 7


def test_work_for_chosen_subscribers_is_no_work_again(webhooks: Hub, receiver: Receiver, tag: str):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.none")
    first = webhooks.publish(tags=tag, payload=7)
    webhooks.complete(webhooks.take(tag)["id"])
    answer = webhooks.post(f"/events/{first['id']}/replay", {"subscribers": [made["id"]]})
    assert (answer.status, answer.json["tags"]) == (202, None)
    (got,) = receiver.wait(f"/{tag}")
    assert got.json["data"] == 7
    assert webhooks.take(tag) is None


@pytest.mark.parametrize("number", ["9223372036854775807", "0", "-1", "x", "9" * 30])
def test_what_is_not_there_cannot_be_replayed(hub: Hub, number: str):
    assert hub.post(f"/events/{number}/replay").status == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"subscribers": []}, "/subscribers"),
        ({"subscribers": [0]}, "/subscribers/0"),
        ({"subscribers": ["a"]}, "/subscribers/0"),
        ({"subscribers": [9223372036854775807]}, "/subscribers/0"),
        ({"subscriber": [1]}, ""),
        ([], ""),
    ],
)
def test_a_body_that_cannot_be_meant_is_422_and_publishes_nothing(hub: Hub, tag: str, body: object, pointer: str):
    first = hub.publish(tags=tag)
    answer = hub.post(f"/events/{first['id']}/replay", body)
    assert (answer.status, answer.json["pointer"]) == (422, pointer)
    assert hub.get("/events", tags=tag).json["total"] == 1


def test_a_body_of_another_kind_is_415(hub: Hub, tag: str):
    first = hub.publish(tags=tag)
    sent = {"Content-Type": "text/plain"}
    assert hub.post(f"/events/{first['id']}/replay", raw=b"{}", headers=sent).status == 415


def test_only_an_administrator_replays(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite")
    first = hub.publish(tags=tag)
    scopes = ["publish", "work", "read"]
    key = hub.with_key(hub.post("/api-keys", {"name": "all but admin", "scopes": scopes}).json["key"])
    assert key.post(f"/events/{first['id']}/replay").status == 403
