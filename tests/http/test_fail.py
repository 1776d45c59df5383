"""Seed 003, section 4: POST /events/{id}/fail reports a failure; the event is tried again until it is final."""

from datetime import datetime, timedelta

import pytest

from tests.http.conftest import Hub

WORDS = "Connection timeout: mail server unreachable. Will retry."


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def exhaust(hub: Hub, tag: str, worker: str = "w", times: int = 3) -> int:
    """Publish a job and fail it so often."""
    event_id: int = hub.publish(tags=tag)["id"]
    for attempt in range(times):
        assert hub.taken(tag, worker)["attempt"] == attempt + 1
        hub.fail(event_id, worker, error_message=f"no. {attempt + 1}")
    return event_id


def test_the_example_of_the_seed_is_answered_with_exactly_its_body(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "worker-02:8742")
    report = {
        "worker_id": "worker-02:8742",
        "execution_time_ms": 5000,
        "status_code": 500,
        "error_message": WORDS,
    }
    answer = hub.post(f"/events/{event_id}/fail", report)
    assert answer.status == 200
    body = answer.json
    assert {*body} == {
        *["event_id", "worker_id", "action", "status_code", "error_message", "execution_time_ms"],
        *["retry_scheduled", "next_retry_at", "created_at"],
    }
    next_retry_at, created_at = body.pop("next_retry_at"), body.pop("created_at")
    assert moment(next_retry_at) - moment(created_at) == timedelta(minutes=5)
    assert body == {**report, "event_id": event_id, "action": "FAILED", "retry_scheduled": True}
    event = hub.event(event_id, logs=True)
    assert (event["status"], event["retry_count"], event["next_retry_at"]) == ("PENDING", 1, next_retry_at)
    entry = event["logs"][-1]
    assert (entry["action"], entry["error_message"], entry["status_code"], entry["execution_time_ms"]) == (
        "FAILED",
        WORDS,
        500,
        5000,
    )


def test_what_waits_for_its_retry_is_pending_and_not_offered(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    hub.fail(event_id, "w")
    assert hub.take(tag, "w") is None
    listed = hub.get("/events", tags=tag, status="PENDING").json["events"]
    assert [(event["id"], event["retry_count"]) for event in listed] == [(event_id, 1)]
    assert hub.get("/events", tags=tag, status="FAILED").json["total"] == 0


def test_the_third_failure_is_400_and_its_effects_are_committed(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]
    for count in (1, 2):
        assert quick.taken(tag, "w")["retry_count"] == count - 1
        answer = quick.fail(event_id, "w", error_message=f"no. {count}")
        assert (answer.status, answer.json["retry_scheduled"]) == (200, True)
        assert quick.event(event_id)["retry_count"] == count
    quick.taken(tag, "w")
    answer = quick.fail(event_id, "w", error_message="no. 3", status_code=502)
    assert answer.status == 400
    members = {name: answer.json[name] for name in ("error", "retry_count", "max_retries")}
    assert members == {"error": "Max retries exceeded", "retry_count": 3, "max_retries": 3}
    event = quick.event(event_id, logs=True)
    assert (event["status"], event["retry_count"], event["next_retry_at"]) == ("FAILED", 3, None)
    assert event["errors"] == ["no. 1", "no. 2", "no. 3"]
    assert [entry["action"] for entry in event["logs"]] == ["PUBLISHED", *["PICKED", "FAILED"] * 3, "DEAD"]
    assert quick.take(tag, "w") is None


def test_repeating_the_final_failure_is_200_and_says_that_no_retry_follows(quick: Hub, tag: str):
    event_id = exhaust(quick, tag)
    before = quick.actions(event_id)
    for _ in range(2):
        answer = quick.fail(event_id, "w", error_message="no. 3")
        assert answer.status == 200
        body = answer.json
        assert (body["retry_scheduled"], body["next_retry_at"], body["action"]) == (False, None, "FAILED")
        assert body["error_message"] == "no. 3"
    assert quick.actions(event_id) == before
    assert quick.event(event_id)["retry_count"] == 3
    assert quick.complete(event_id, "w").status == 409


def test_repeating_a_failure_gives_the_same_answer_and_counts_once(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    first = hub.fail(event_id, "w", error_message="no", status_code=500, execution_time_ms=9)
    again = hub.fail(event_id, "w", error_message="no", status_code=500, execution_time_ms=9)
    assert (again.status, again.json) == (200, first.json)
    assert hub.event(event_id)["retry_count"] == 1
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED", "FAILED"]


def test_the_opposite_report_is_409_and_changes_nothing(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    hub.fail(event_id, "w")
    answer = hub.complete(event_id, "w")
    assert (answer.status, answer.kind) == (409, "already-reported")
    assert hub.event(event_id)["status"] == "PENDING"


def test_a_new_claim_by_the_same_worker_is_a_new_attempt_and_is_recorded(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]
    first = quick.taken(tag, "w")["fence"]
    quick.fail(event_id, "w", error_message="once")
    second = quick.taken(tag, "w")["fence"]
    assert second > first
    answer = quick.fail(event_id, "w", error_message="twice")
    assert answer.json["error_message"] == "twice"
    assert quick.event(event_id)["retry_count"] == 2
    quick.taken(tag, "w")
    assert quick.complete(event_id, "w").status == 200
    assert quick.actions(event_id) == ["PUBLISHED", *["PICKED", "FAILED"] * 2, "PICKED", "COMPLETED"]
    assert quick.fail(event_id, "w", fence=first).json["error_message"] == "once"
    assert quick.fail(event_id, "w", fence=second).json["error_message"] == "twice"


def test_others_and_nobody_cannot_fail_an_event(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    assert hub.fail(event_id, "w").status == 409
    hub.take(tag, "mine")
    assert hub.fail(event_id, "other").status == 409
    assert hub.fail(9_000_000_000_000_000_000, "w").status == 404
    event = hub.event(event_id)
    assert (event["status"], event["retry_count"]) == ("PROCESSING", 0)


def test_an_abandoned_attempt_counts_and_a_worker_that_always_dies_ends_it(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]
    for attempt in (1, 2, 3):
        taken = quick.taken(tag, f"w{attempt}", lease_seconds=1)
        assert (taken["id"], taken["attempt"]) == (event_id, attempt)
    assert quick.take(tag, "w4", wait=3) is None
    event = quick.event(event_id, logs=True)
    assert event["status"] == "FAILED"
    actions = [entry["action"] for entry in event["logs"]]
    assert actions == ["PUBLISHED", *["PICKED", "ABANDONED"] * 3, "DEAD"]


def test_many_failures_have_an_answer_each(quick: Hub, tag: str):
    dying = exhaust(quick, tag, times=2)
    fresh = quick.publish(tags=tag)["id"]
    taken = quick.get("/events/subscribe", tags=tag, worker_id="w", limit=5, wait=5).json["events"]
    assert {event["id"] for event in taken} == {dying, fresh}
    reports = [
        {"event_id": fresh, "worker_id": "w", "error_message": "first", "status_code": 503, "execution_time_ms": 1},
        {"event_id": dying, "worker_id": "w", "error_message": "third"},
        {"event_id": fresh, "worker_id": "other"},
    ]
    results = quick.post("/events/fail", {"reports": reports}).json["results"]
    assert [result["status"] for result in results] == [200, 400, 409]
    assert results[0]["report"]["retry_scheduled"] is True
    assert results[1]["problem"]["error"] == "Max retries exceeded"
    assert (results[1]["problem"]["retry_count"], results[1]["problem"]["max_retries"]) == (3, 3)
    assert quick.event(dying)["status"] == "FAILED"
    assert quick.event(fresh)["retry_count"] == 1
    again = quick.post("/events/fail", {"reports": reports[1:2]}).json["results"]
    assert (again[0]["status"], again[0]["report"]["retry_scheduled"]) == (200, False)


@pytest.mark.parametrize("words", [None, "", "a" * 10_000, "line\nbreak\ttab ü 😀"])
def test_any_words_are_kept_as_they_are(hub: Hub, tag: str, words: str | None):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    body = {} if words is None else {"error_message": words}
    answer = hub.fail(event_id, "w", **body)
    assert answer.status == 200
    if words:
        assert answer.json["error_message"] == words
        assert hub.event(event_id, logs=True)["logs"][-1]["error_message"] == words


def test_max_retries_is_a_setting_of_the_server(make_hub, tag: str):
    hub = make_hub("sqlite", "--max-retries", "1")
    published = hub.publish(tags=tag)
    assert published["max_retries"] == 1
    hub.take(tag, "w")
    answer = hub.fail(published["id"], "w")
    assert (answer.status, answer.json["retry_count"], answer.json["max_retries"]) == (400, 1, 1)
    assert hub.event(published["id"])["status"] == "FAILED"


def test_a_failure_that_no_retry_can_help_is_final_at_once(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    for _ in range(2):  # the second is a repetition
        answer = hub.fail(event_id, "w", error_message="no such address", retry=False)
        assert answer.status == 200
        assert (answer.json["retry_scheduled"], answer.json["next_retry_at"]) == (False, None)
    event = hub.event(event_id, logs=True)
    assert (event["status"], event["retry_count"]) == ("FAILED", 1)
    assert [entry["action"] for entry in event["logs"]] == ["PUBLISHED", "PICKED", "FAILED", "DEAD"]
    assert event["logs"][-1]["error_message"] == "rejected"


def test_many_failures_may_each_say_whether_a_retry_helps(hub: Hub, tag: str):
    first, second = (hub.publish(tags=tag)["id"] for _ in range(2))
    hub.get("/events/subscribe", tags=tag, worker_id="w", limit=2)
    reports = [{"event_id": first, "worker_id": "w"}, {"event_id": second, "worker_id": "w", "retry": False}]
    results = hub.post("/events/fail", {"reports": reports}).json["results"]
    assert [(each["status"], each["report"]["retry_scheduled"]) for each in results] == [(200, True), (200, False)]
