"""Seed 003, section 3: POST /events/{id}/complete reports success, once."""

import pytest

from tests.http.conftest import Hub


def test_the_example_of_the_seed_is_answered_with_exactly_its_body(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "worker-02:8742")
    answer = hub.post(
        f"/events/{event_id}/complete", {"worker_id": "worker-02:8742", "execution_time_ms": 1250, "status_code": 200}
    )
    assert answer.status == 200
    body = answer.json
    assert list(body) == ["event_id", "worker_id", "action", "status_code", "execution_time_ms", "created_at"]
    created_at = body.pop("created_at")
    assert body == {
        "event_id": event_id,
        "worker_id": "worker-02:8742",
        "action": "COMPLETED",
        "status_code": 200,
        "execution_time_ms": 1250,
    }
    event = hub.event(event_id, logs=True)
    assert (event["status"], event["updated_at"]) == ("COMPLETED", created_at)
    entry = event["logs"][-1]
    assert (entry["action"], entry["status_code"], entry["execution_time_ms"], entry["created_at"]) == (
        "COMPLETED",
        200,
        1250,
        created_at,
    )


def test_a_report_needs_nothing_but_the_worker(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    body = hub.complete(event_id, "w").json
    assert (body["status_code"], body["execution_time_ms"]) == (None, None)
    assert hub.event(event_id)["status"] == "COMPLETED"


def test_repeating_the_report_gives_the_same_answer_and_no_second_log_row(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    fence = hub.take(tag, "w")["fence"]
    report = {"execution_time_ms": 7, "status_code": 204}
    first = hub.complete(event_id, "w", **report)
    for again in (report, {**report, "fence": fence}, {}):
        answer = hub.complete(event_id, "w", **again)
        assert (answer.status, answer.json) == (200, first.json)
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED", "COMPLETED"]


def test_the_opposite_report_is_409_and_changes_nothing(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    hub.complete(event_id, "w")
    answer = hub.fail(event_id, "w", error_message="but no")
    assert (answer.status, answer.kind) == (409, "already-reported")
    event = hub.event(event_id, logs=True)
    assert (event["status"], event["retry_count"], len(event["logs"])) == ("COMPLETED", 0, 3)


def test_another_worker_s_claim_is_409_and_changes_nothing(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    fence = hub.take(tag, "mine")["fence"]
    for body in ({}, {"fence": fence}, {"fence": fence + 1}):
        answer = hub.complete(event_id, "other", **body)
        assert (answer.status, answer.kind) == (409, "claim-lost")
    assert hub.event(event_id)["status"] == "PROCESSING"
    assert hub.complete(event_id, "mine").status == 200
    assert hub.complete(event_id, "other").status == 409


def test_a_never_picked_event_is_409(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    assert hub.complete(event_id, "w").status == 409
    assert hub.event(event_id)["status"] == "PENDING"
    broadcast = hub.post("/events", {"event_type": "order.placed", "payload": {}}).json["id"]
    assert hub.complete(broadcast, "w").status == 409


def test_an_unknown_event_is_404(hub: Hub):
    for number in ("9000000000000000000", "0", "-1", "9223372036854775808", "1e3", "abc", "%20", "0x1"):
        answer = hub.post(f"/events/{number}/complete", {"worker_id": "w"})
        assert (answer.status, answer.kind) == (404, "not-found"), number


def test_the_fence_of_an_earlier_claim_is_claim_lost(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    first = hub.take(tag, "w", lease_seconds=1)["fence"]
    second = hub.taken(tag, "w")["fence"]
    answer = hub.complete(event_id, "w", fence=first)
    assert (answer.status, answer.kind) == (409, "claim-lost")
    assert hub.event(event_id)["status"] == "PROCESSING"
    assert hub.complete(event_id, "w", fence=second).status == 200


def test_a_worker_whose_lease_ended_lost_its_claim_to_its_successor(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "slow", lease_seconds=1)
    hub.taken(tag, "next")
    for report in (hub.complete, hub.fail):
        answer = report(event_id, "slow")
        assert (answer.status, answer.kind) == (409, "claim-lost")
        assert "next" in answer.json["detail"]
    assert hub.complete(event_id, "next").status == 200
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED", "ABANDONED", "PICKED", "COMPLETED"]


def test_many_reports_have_an_answer_each_in_their_order(hub: Hub, tag: str):
    ids = [hub.publish(tags=tag)["id"] for _ in range(4)]
    taken = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=3).json["events"]
    assert [event["id"] for event in taken] == ids[:3]
    hub.fail(ids[1], "w")
    reports = [
        {"event_id": ids[0], "worker_id": "w", "status_code": 200, "execution_time_ms": 5, "fence": 1},
        {"event_id": ids[1], "worker_id": "w"},
        {"event_id": ids[2], "worker_id": "other"},
        {"event_id": ids[3], "worker_id": "w"},
        {"event_id": 9_000_000_000_000_000_000, "worker_id": "w"},
        {"event_id": ids[0], "worker_id": "w"},
    ]
    answer = hub.post("/events/complete", {"reports": reports})
    assert answer.status == 200
    results = answer.json["results"]
    assert [(r["event_id"], r["status"]) for r in results] == [
        (ids[0], 200),
        (ids[1], 409),
        (ids[2], 409),
        (ids[3], 409),
        (9_000_000_000_000_000_000, 404),
        (ids[0], 200),
    ]
    assert results[0]["report"]["action"] == "COMPLETED"
    assert results[0]["report"] == results[5]["report"] == hub.complete(ids[0], "w").json
    kinds = ["already-reported", "claim-lost", "claim-lost", "not-found"]
    assert [r["problem"]["type"] for r in results[1:5]] == [f"urn:eventhub:{kind}" for kind in kinds]
    assert all(r["problem"]["status"] == r["status"] for r in results[1:5])
    assert [hub.event(event_id)["status"] for event_id in ids] == ["COMPLETED", "PENDING", "PROCESSING", "PENDING"]


def test_a_thousand_reports_at_once(hub: Hub, tag: str):
    hub.post("/events/batch", {"events": [{"tags": tag, "payload": n} for n in range(1000)]})
    taken = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=1000).json["events"]
    assert [event["payload"] for event in taken] == list(range(1000))
    reports = [{"event_id": event["id"], "worker_id": "w", "fence": event["fence"]} for event in taken]
    results = hub.post("/events/complete", {"reports": reports}).json["results"]
    assert {result["status"] for result in results} == {200}
    again = hub.post("/events/complete", {"reports": reports}).json["results"]
    assert again == results
    assert hub.get("/events", tags=tag, status="COMPLETED", limit=1).json["total"] == 1000


@pytest.mark.parametrize("what", ["complete", "fail"])
@pytest.mark.parametrize("together", [False, True])
def test_a_whole_number_may_be_written_with_a_point(hub: Hub, tag: str, what: str, together: bool):  # noqa: FBT001
    event_id = hub.publish(tags=tag, priority=5.0, payload=7.0)["id"]
    assert '"payload":7.0' in hub.get(f"/events/{event_id}").raw.decode()
    fence = hub.take(tag, "w")["fence"]
    report = {"worker_id": "w", "status_code": 200.0, "execution_time_ms": 1e3, "fence": float(fence)}
    if together:
        answer = hub.post(f"/events/{what}", {"reports": [{**report, "event_id": float(event_id)}]})
        found = answer.json["results"][0]["report"]
    else:
        found = hub.post(f"/events/{event_id}/{what}", report).json
    assert (found["status_code"], found["execution_time_ms"]) == (200, 1000)


def test_a_broken_number_is_no_whole_one(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    answer = hub.complete(event_id, "w", status_code=200.5, execution_time_ms=7.0)
    assert (answer.status, answer.json["pointer"]) == (422, "/status_code")
    assert hub.complete(event_id, "w", status_code="200").status == 422
