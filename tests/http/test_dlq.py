"""The dead letter queue over HTTP: looked at, retried by one and by many, purged."""

from typing import Any

import pytest

from tests.http.conftest import Hub
from tests.http.receiver import Receiver
from tests.http.test_messages import held


def bury(hub: Hub, messages: list[Any]) -> None:
    for message in messages:
        assert hub.post(f"/messages/{message['id']}/dead-letter").status == 200


def dead(hub: Hub, **query: Any) -> list[int]:
    page = hub.get("/dlq", **query).json
    assert page["total"] == len(page["dead_letters"])
    return [letter["id"] for letter in page["dead_letters"]]


def work_that_died(hub: Hub, tag: str, **event: Any) -> int:
    event_id: int = hub.publish(tags=tag, **event)["id"]
    hub.take(tag, "w")
    assert hub.fail(event_id, "w", error_message="no good", retry=False).status == 200
    return event_id


# -------------------------------------------------------------------- looking


def test_a_dead_message_keeps_its_event_and_its_subscriber_as_they_were(webhooks: Hub, receiver: Receiver, tag: str):
    receiver.statuses[f"/{tag}"] = 500
    headers = {"Authorization": "Bearer me"}
    made = webhooks.subscribe(
        tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", retry_backoff_seconds=[0], headers=headers
    )
    event_id = webhooks.broadcast(
        f"{tag}.x", payload={"order": 7}, metadata={"tenant": "acme"}, ordering_key="k", title="Order"
    )
    page = webhooks.until("/dlq", lambda found: found["dead_letters"], subscriber=made["id"])
    (listed,) = page["dead_letters"]
    assert (page["total"], page["limit"], page["next_before"]) == (1, 100, None)
    assert (listed["event_id"], listed["subscriber_id"], listed["event_type"]) == (event_id, made["id"], f"{tag}.x")
    assert (listed["status"], listed["reason"], listed["queue"]) == ("FAILED", "retries_exhausted", "hub")
    assert (listed["attempt_count"], listed["retry_count"], listed["parked"]) == (2, 2, False)
    assert "payload" not in listed
    webhooks.patch(f"/subscribers/{made['id']}", {"description": "changed since"})
    letter = webhooks.get(f"/dlq/{listed['id']}").json
    assert listed.items() <= letter.items()
    assert (letter["payload"], letter["metadata"], letter["title"]) == ({"order": 7}, {"tenant": "acme"}, "Order")
    assert (len(letter["errors"]), letter["errors"][-1]) == (2, letter["error"])
    assert (letter["subscriber"]["name"], letter["subscriber"]["description"]) == (tag, None)
    text = webhooks.get(f"/dlq/{listed['id']}").raw.decode()
    assert "Bearer me" not in text
    assert made["secret"] not in text


def test_dead_work_is_there_too_under_the_id_of_its_event(webhooks: Hub, tag: str):
    event_id = work_that_died(webhooks, tag, payload=[1], event_type=f"{tag}.x")
    letter = webhooks.get(f"/dlq/{event_id}").json
    assert (letter["id"], letter["event_id"], letter["payload"]) == (event_id, event_id, [1])
    assert (letter["queue"], letter["error"], letter["tags"]) == ("work", "no good", tag)
    assert "subscriber_id" not in letter
    assert dead(webhooks, type=f"{tag}.x") == [event_id]


def test_filters_are_a_strict_and_and_the_total_counts_them(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 3)
    bury(webhooks, messages)
    other = work_that_died(webhooks, tag, event_type=f"{tag}.x")
    ids = [message["id"] for message in messages]
    assert sorted(dead(webhooks, type=f"{tag}.x")) == sorted([*ids, other])
    assert sorted(dead(webhooks, type=f"{tag}.x", queue="hub")) == ids
    assert dead(webhooks, type=f"{tag}.x", queue="work") == [other]
    assert sorted(dead(webhooks, subscriber=made["id"])) == ids
    assert sorted(dead(webhooks, subscriber=made["id"], reason="manual")) == ids
    assert dead(webhooks, subscriber=made["id"], reason="gone") == []
    assert dead(webhooks, type=f"{tag}.x", error="o goo") == [other]
    assert dead(webhooks, type=f"{tag}.x", error="%") == []
    moment = webhooks.get(f"/dlq/{ids[1]}").json["dead_at"]
    assert sorted(dead(webhooks, subscriber=made["id"], since=moment)) == ids[1:]
    assert sorted(dead(webhooks, subscriber=made["id"], until=moment)) == ids[:2]
    assert dead(webhooks, subscriber=made["id"], since=moment, until=moment) == [ids[1]]


def test_the_latest_death_is_first_and_pages_never_overlap(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 5)
    order = [messages[place] for place in (2, 0, 4, 1, 3)]
    bury(webhooks, order)
    seen: list[int] = []
    query: dict[str, Any] = {"subscriber": made["id"], "limit": 2}
    while True:
        page = webhooks.get("/dlq", **query).json
        assert page["total"] == 5
        seen += [letter["id"] for letter in page["dead_letters"]]
        if page["next_before"] is None:
            break
        query["before"] = page["next_before"]
    assert seen == [message["id"] for message in order[::-1]]


@pytest.mark.parametrize(
    "query",
    [
        "reason=because",
        "type=a%2Fb",
        "queue=",
        "subscriber=0",
        "since=yesterday",
        "since=2026-01-01T00:00:00",
        "since=0001-01-01T00:00:00%2B23:59",
        "error=",
        "limit=0",
        "limit=1001",
        "before=x",
        "offset=1",
        "colour=red",
    ],
)
def test_a_bad_query_is_400(webhooks: Hub, query: str):
    assert webhooks.get(f"/dlq?{query}").status == 400
    assert webhooks.delete(f"/dlq?older_than_days=1&{query}").status == 400


# ------------------------------------------------------------------- retrying


def test_one_is_retried_once(webhooks: Hub, receiver: Receiver, tag: str):
    made, (message,) = held(webhooks, receiver, tag)
    bury(webhooks, [message])
    answer = webhooks.post(f"/dlq/{message['id']}/retry")
    assert (answer.status, answer.json) == (200, {"count": 1})
    again = webhooks.post(f"/dlq/{message['id']}/retry")
    assert (again.status, again.kind) == (409, "not-dead")
    letter = webhooks.get(f"/dlq/{message['id']}").json
    assert letter["retried_by"] == "owner"
    assert letter["retried_at"] >= letter["dead_at"]
    assert dead(webhooks, subscriber=made["id"]) == []
    revived = webhooks.get(f"/messages/{message['id']}").json
    assert (revived["status"], revived["retry_count"]) == ("PENDING", 0)
    webhooks.post(f"/subscribers/{made['id']}/resume")
    webhooks.until(f"/messages/{message['id']}", lambda found: found["status"] == "COMPLETED")


def test_dead_work_is_work_again(webhooks: Hub, tag: str):
    event_id = work_that_died(webhooks, tag)
    assert webhooks.post(f"/dlq/{event_id}/retry").status == 200
    taken = webhooks.take(tag, "w")
    assert (taken["id"], taken["retry_count"], taken["fence"]) == (event_id, 0, 2)


@pytest.mark.parametrize("number", ["9223372036854775807", "0", "-1", "x", "9" * 30])
def test_what_never_died_is_404(webhooks: Hub, number: str):
    assert webhooks.get(f"/dlq/{number}").status == 404
    assert webhooks.post(f"/dlq/{number}/retry").status == 404


def test_what_lives_is_not_found_among_the_dead(webhooks: Hub, tag: str):
    event_id = webhooks.publish(tags=tag)["id"]
    assert webhooks.get(f"/dlq/{event_id}").status == 404
    assert webhooks.post(f"/dlq/{event_id}/retry").status == 404


def test_many_are_retried_by_a_filter_as_many_as_a_dry_run_says(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 6)
    bury(webhooks, messages[:4])
    wanted = {"filter": {"subscriber": made["id"], "reason": "manual"}}
    dry = webhooks.post("/dlq/retry", {**wanted, "dry_run": True})
    assert (dry.status, dry.json) == (200, {"count": 4, "dry_run": True})
    assert len(dead(webhooks, subscriber=made["id"])) == 4
    real = webhooks.post("/dlq/retry", wanted)
    assert (real.status, real.json) == (200, {"count": 4, "dry_run": False})
    assert dead(webhooks, subscriber=made["id"]) == []
    assert webhooks.post("/dlq/retry", wanted).json["count"] == 0


def test_many_are_retried_by_their_ids(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 3)
    bury(webhooks, messages)
    ids = [message["id"] for message in messages]
    wanted = {"ids": [ids[0], ids[2], ids[0], 9223372036854775807]}
    assert webhooks.post("/dlq/retry", {**wanted, "dry_run": True}).json["count"] == 2
    assert webhooks.post("/dlq/retry", wanted).json["count"] == 2
    assert dead(webhooks, subscriber=made["id"]) == [ids[1]]


def test_what_died_for_a_subscriber_that_is_gone_cannot_be_retried(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 2)
    bury(webhooks, messages)
    webhooks.delete(f"/subscribers/{made['id']}")
    wanted = {"filter": {"subscriber": made["id"]}}
    assert webhooks.post("/dlq/retry", {**wanted, "dry_run": True}).json["count"] == 0
    assert webhooks.post("/dlq/retry", wanted).json["count"] == 0
    assert webhooks.post(f"/dlq/{messages[0]['id']}/retry").status == 409
    assert len(dead(webhooks, subscriber=made["id"])) == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"dry_run": True}, ""),
        ({"ids": [1], "filter": {}}, ""),
        ({"ids": []}, "/ids"),
        ({"ids": [0]}, "/ids/0"),
        ({"ids": ["1"]}, "/ids/0"),
        ({"ids": [1] * 1001}, "/ids"),
        ({"filter": {"colour": "red"}}, "/filter"),
        ({"filter": {"reason": "because"}}, "/filter/reason"),
        ({"filter": {"type": "a/b"}}, "/filter/type"),
        ({"filter": {"queue": "a b"}}, "/filter/queue"),
        ({"filter": {"since": "yesterday"}}, "/filter/since"),
        ({"filter": {"until": "0001-01-01T00:00:00+23:59"}}, "/filter/until"),
        ({"filter": {"subscriber": 0}}, "/filter/subscriber"),
        ({"filter": []}, "/filter"),
        ({"filter": {}, "limit": 5}, ""),
        ({"filter": {}, "dry_run": "yes"}, "/dry_run"),
    ],
    ids=lambda value: repr(value)[:80],
)
def test_a_body_that_cannot_be_meant_is_422_and_retries_nothing(webhooks: Hub, body: Any, pointer: str):
    answer = webhooks.post("/dlq/retry", body)
    assert (answer.status, answer.json["pointer"]) == (422, pointer), answer


# -------------------------------------------------------------------- purging


def test_what_is_purged_is_gone_for_good(webhooks: Hub, receiver: Receiver, tag: str):
    made, messages = held(webhooks, receiver, tag, 3)
    bury(webhooks, messages[:2])
    assert webhooks.delete("/dlq", older_than_days=1, subscriber=made["id"]).json == {"count": 0}
    answer = webhooks.delete("/dlq", older_than_days=0, subscriber=made["id"], reason="manual")
    assert (answer.status, answer.json) == (200, {"count": 2})
    assert dead(webhooks, subscriber=made["id"]) == []
    assert webhooks.get(f"/dlq/{messages[0]['id']}").status == 404
    assert webhooks.get(f"/messages/{messages[2]['id']}").status == 200


def test_an_age_must_be_given(webhooks: Hub):
    for query in ("", "?older_than_days=", "?older_than_days=-1", "?older_than_days=NaN", "?older_than_days=99999"):
        assert webhooks.delete(f"/dlq{query}").status == 400
