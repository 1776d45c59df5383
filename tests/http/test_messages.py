"""Messages over HTTP: where each one is, what was tried, and what an operator may do with it."""

from typing import Any

import pytest

from tests.http.conftest import Hub
from tests.http.receiver import Receiver

HOUR = [3600]


def held(hub: Hub, receiver: Receiver, tag: str, events: int = 1, **more: Any) -> tuple[Any, list[Any]]:
    """A paused subscriber and the messages that wait for it, oldest first."""
    made = hub.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", **more)
    hub.post(f"/subscribers/{made['id']}/pause")
    hub.until_noticed(receiver)
    for number in range(events):
        hub.broadcast(f"{tag}.x", payload=number)
    page = hub.until("/messages", lambda found: len(found["messages"]) == events, subscriber=made["id"], limit=1000)
    return made, page["messages"][::-1]


def failed(hub: Hub, receiver: Receiver, tag: str, **more: Any) -> Any:
    """A message whose first attempt has failed, and which waits for long."""
    receiver.statuses[f"/{tag}"] = 503
    made = hub.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", retry_backoff_seconds=HOUR, **more)
    hub.broadcast(f"{tag}.x", payload={"order": 7})
    page = hub.until(
        "/messages", lambda found: [m for m in found["messages"] if m["retry_count"] == 1], subscriber=made["id"]
    )
    return page["messages"][0]


def message(hub: Hub, number: int) -> Any:
    answer = hub.get(f"/messages/{number}")
    assert answer.status == 200, answer
    return answer.json


# -------------------------------------------------------------------- looking


def test_a_delivered_message_tells_its_story(webhooks: Hub, receiver: Receiver, tag: str):
    headers = {"Authorization": "Bearer me", "X-Team": "a"}
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", headers=headers)
    event_id = webhooks.broadcast(f"{tag}.x", payload={"order": 7}, ordering_key="k")
    page = webhooks.until(
        "/messages",
        lambda found: found["messages"] and found["messages"][0]["status"] == "COMPLETED",
        event_id=event_id,
    )
    (listed,) = page["messages"]
    assert "attempts" not in listed
    found = message(webhooks, listed["id"])
    (attempt,) = found.pop("attempts")
    assert found == listed
    assert (found["event_id"], found["subscriber_id"], found["event_type"]) == (event_id, made["id"], f"{tag}.x")
    assert found["id"] != event_id
    assert (found["attempt_count"], found["retry_count"], found["blocked"]) == (1, 0, False)
    assert (attempt["action"], attempt["status_code"], attempt["response_body"]) == ("COMPLETED", 200, "ok")
    assert (attempt["url"], attempt["attempt"]) == (f"{receiver.url}/{tag}", 1)
    assert attempt["total_ms"] > 0
    assert attempt["request_headers"]["x-team"] == "a"
    assert attempt["request_headers"]["authorization"] == "***"
    assert webhooks.event(event_id)["status"] == "COMPLETED"


def test_a_message_that_waits_for_its_retry_is_pending_and_says_when(webhooks: Hub, receiver: Receiver, tag: str):
    waiting = failed(webhooks, receiver, tag)
    assert (waiting["status"], waiting["attempt_count"], waiting["max_attempts"]) == ("PENDING", 1, 2)
    assert waiting["next_retry_at"] > waiting["created_at"]
    assert len(waiting["errors"]) == 1
    (attempt,) = message(webhooks, waiting["id"])["attempts"]
    assert (attempt["action"], attempt["status_code"]) == ("FAILED", 503)
    assert webhooks.event(waiting["event_id"])["status"] == "PENDING"


def test_lists_are_newest_first_and_pages_never_overlap(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 7)
    seen: list[int] = []
    query: dict[str, int] = {"subscriber": made["id"], "limit": 3}
    while True:
        page = webhooks.get("/messages", **query).json
        assert page["limit"] == 3
        seen += [each["id"] for each in page["messages"]]
        if page["next_before"] is None:
            break
        query["before"] = page["next_before"]
    assert seen == [each["id"] for each in messages[::-1]]


def test_filters_are_a_strict_and(webhooks: Hub, receiver: Receiver, tag: str):
    made, (first, second) = held(webhooks, receiver, tag, 2)
    webhooks.post(f"/messages/{first['id']}/dead-letter")

    def ids(**query: Any) -> list[int]:
        return [each["id"] for each in webhooks.get("/messages", **query).json["messages"]]

    assert ids(subscriber=made["id"], status="FAILED") == [first["id"]]
    assert ids(subscriber=made["id"], status="PENDING") == [second["id"]]
    assert ids(subscriber=made["id"], status="COMPLETED") == []
    assert ids(event_id=second["event_id"]) == [second["id"]]
    assert ids(event_id=second["event_id"], status="FAILED") == []
    assert ids(subscriber=made["id"] + 1, event_id=second["event_id"]) == []


@pytest.mark.parametrize(
    "query",
    [
        "status=DELIVERED",
        "status=pending",
        "subscriber=0",
        "subscriber=x",
        "event_id=-1",
        "event_id=9223372036854775808",
        "before=0",
        "limit=0",
        "limit=1001",
        "limit=ten",
        "offset=3",
        "status=PENDING&status=FAILED",
    ],
)
def test_a_bad_query_is_400(webhooks: Hub, query: str):
    assert webhooks.get(f"/messages?{query}").status == 400


# ------------------------------------------------------------------ operating


def test_a_message_that_waits_is_tried_again_at_once(webhooks: Hub, receiver: Receiver, tag: str):
    waiting = failed(webhooks, receiver, tag)
    receiver.statuses[f"/{tag}"] = 200
    answer = webhooks.post(f"/messages/{waiting['id']}/retry")
    assert (answer.status, answer.json["id"]) == (200, waiting["id"])
    done = webhooks.until(f"/messages/{waiting['id']}", lambda found: found["status"] == "COMPLETED")
    assert [attempt["action"] for attempt in done["attempts"]] == ["FAILED", "COMPLETED"]
    again = webhooks.post(f"/messages/{waiting['id']}/retry")
    assert (again.status, again.kind) == (409, "wrong-status")


def test_a_message_is_given_up_by_hand_and_retried_from_there(webhooks: Hub, receiver: Receiver, tag: str):
    made, (waiting,) = held(webhooks, receiver, tag)
    answer = webhooks.post(f"/messages/{waiting['id']}/dead-letter")
    assert (answer.status, answer.json["status"]) == (200, "FAILED")
    assert webhooks.post(f"/messages/{waiting['id']}/dead-letter").status == 409
    dead = webhooks.get(f"/dlq/{waiting['id']}").json
    assert (dead["reason"], dead["subscriber_id"], dead["event_id"]) == ("manual", made["id"], waiting["event_id"])
    assert webhooks.event(waiting["event_id"])["status"] == "FAILED"
    revived = webhooks.post(f"/messages/{waiting['id']}/retry")
    assert (revived.status, revived.json["status"]) == (200, "PENDING")
    webhooks.post(f"/subscribers/{made['id']}/resume")
    webhooks.until(f"/messages/{waiting['id']}", lambda found: found["status"] == "COMPLETED")
    assert webhooks.event(waiting["event_id"])["status"] == "COMPLETED"


def test_a_cancelled_message_is_not_sent(webhooks: Hub, receiver: Receiver, tag: str):
    made, (first, second) = held(webhooks, receiver, tag, 2)
    answer = webhooks.post(f"/messages/{first['id']}/cancel")
    assert (answer.status, answer.raw) == (204, b"")
    assert webhooks.post(f"/messages/{first['id']}/cancel").status in (404, 409)
    assert "CANCELLED" in webhooks.actions(first["event_id"])
    webhooks.post(f"/subscribers/{made['id']}/resume")
    (got,) = receiver.wait(f"/{tag}")
    webhooks.until(f"/messages/{second['id']}", lambda found: found["status"] == "COMPLETED")
    assert [got.json["data"]] == [1]
    assert len(receiver.at(f"/{tag}")) == 1


@pytest.mark.parametrize("number", ["9223372036854775807", "0", "-1", "x", "9" * 30])
@pytest.mark.parametrize(
    ("method", "tail"), [("GET", ""), ("POST", "/retry"), ("POST", "/cancel"), ("POST", "/dead-letter")]
)
def test_a_message_that_is_not_there_is_404(webhooks: Hub, number: str, method: str, tail: str):
    assert webhooks(method, f"/messages/{number}{tail}").status == 404


def test_the_id_of_work_is_not_that_of_a_message(webhooks: Hub, tag: str):
    event_id = webhooks.publish(tags=tag)["id"]
    assert webhooks.get(f"/messages/{event_id}").status == 404
    for verb in ("retry", "cancel", "dead-letter"):
        assert webhooks.post(f"/messages/{event_id}/{verb}").status == 404
    assert webhooks.take(tag)["id"] == event_id


def test_every_row_of_the_log_says_whose_message_it_tells_of(webhooks: Hub, receiver: Receiver, tag: str):
    receiver.statuses[f"/{tag}/bad"] = 400
    kind = f"told.{tag}"
    good = webhooks.subscribe(f"good {tag}", f"{receiver.url}/{tag}/good", event_type=kind)
    bad = webhooks.subscribe(f"bad {tag}", f"{receiver.url}/{tag}/bad", event_type=kind)
    paused = webhooks.subscribe(f"held {tag}", f"{receiver.url}/{tag}/held", event_type=kind)
    webhooks.post(f"/subscribers/{paused['id']}/pause")
    webhooks.until_noticed(receiver)
    number = webhooks.publish(event_type=kind, tags=tag)["id"]
    webhooks.until(f"/messages?event_id={number}&status=FAILED", lambda found: found["messages"])
    webhooks.until(f"/messages?event_id={number}&status=COMPLETED", lambda found: found["messages"])
    (waiting,) = webhooks.get("/messages", event_id=number, status="PENDING").json["messages"]
    assert webhooks.post(f"/messages/{waiting['id']}/dead-letter").status == 200
    webhooks.complete(webhooks.taken(tag, "w")["id"], "w")
    logs = webhooks.event(number, logs=True)["logs"]

    def actions(subscriber: int | None) -> list[str]:
        return [entry["action"] for entry in logs if entry.get("subscriber_id") == subscriber]

    assert actions(good["id"]) == ["PICKED", "COMPLETED"]
    assert actions(bad["id"]) == ["PICKED", "FAILED", "DEAD"]
    assert sorted(actions(paused["id"])) == ["DEAD", "RESET"], "nobody has ever taken it"
    assert actions(None) == ["PUBLISHED", "PICKED", "COMPLETED"], "work is nobody's message"
    names = {entry["subscriber_id"]: entry["subscriber"] for entry in logs if "subscriber" in entry}
    assert names == {one["id"]: one["name"] for one in (good, bad, paused)}
    messages = {one["id"]: one["subscriber_id"] for one in webhooks.get("/messages", event_id=number).json["messages"]}
    assert {e["delivery_id"]: e["subscriber_id"] for e in logs if "delivery_id" in e} == messages
    assert webhooks.delete(f"/subscribers/{good['id']}").status == 200
    left = [entry for entry in webhooks.event(number, logs=True)["logs"] if entry.get("subscriber_id") == good["id"]]
    assert left
    assert not any("subscriber" in entry for entry in left), "it is not there any more"
