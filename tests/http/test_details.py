"""Seed 003, section 5 and its log example: GET /events/{id}, with everything that happened to it."""

import pytest

from tests.http.conftest import Hub
from tests.http.test_create_job import EXAMPLE


def test_the_example_of_the_seed(hub: Hub, tag: str):
    published = hub.publish(**EXAMPLE | {"tags": tag})
    hub.take(tag, "worker-02:8742")
    done = hub.complete(published["id"], "worker-02:8742", execution_time_ms=1250, status_code=200).json
    body = hub.get(f"/events/{published['id']}", include_logs="true").json
    logs = body.pop("logs")
    assert body == {
        **EXAMPLE,
        "id": published["id"],
        "tags": tag,
        "status": "COMPLETED",
        "retry_count": 0,
        "max_retries": 3,
        "next_retry_at": None,
        "created_at": published["created_at"],
        "updated_at": done["created_at"],
    }
    ids = [entry.pop("id") for entry in logs]
    assert ids == sorted(set(ids))
    times = [entry.pop("created_at") for entry in logs]
    assert times == sorted(times)
    worked = {"event_id": published["id"], "worker_id": "worker-02:8742", "attempt": 1}
    assert logs[0] == {"event_id": published["id"], "action": "PUBLISHED"}
    assert logs[1:] == [
        {**worked, "action": "PICKED"},
        {**worked, "action": "COMPLETED", "status_code": 200, "execution_time_ms": 1250},
    ]


def test_the_log_of_the_lifecycle_example(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]
    quick.taken(tag, "worker-01:7234")
    quick.post(f"/events/{event_id}/start", {"worker_id": "worker-01:7234"})
    quick.fail(
        event_id,
        "worker-01:7234",
        status_code=503,
        error_message="Service unavailable, will retry",
        execution_time_ms=8000,
    )
    quick.taken(tag, "worker-02:8742")
    quick.complete(event_id, "worker-02:8742", status_code=200, execution_time_ms=1250)
    logs = quick.event(event_id, logs=True)["logs"]
    kept = ("worker_id", "action", "status_code", "error_message", "execution_time_ms")
    assert [tuple(entry.get(name) for name in kept) for entry in logs[1:]] == [
        ("worker-01:7234", "PICKED", None, None, None),
        ("worker-01:7234", "STARTED", None, None, None),
        ("worker-01:7234", "FAILED", 503, "Service unavailable, will retry", 8000),
        ("worker-02:8742", "PICKED", None, None, None),
        ("worker-02:8742", "COMPLETED", 200, None, 1250),
    ]
    assert {entry["event_id"] for entry in logs} == {event_id}
    assert [entry["attempt"] for entry in logs[1:]] == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("asked", [{}, {"include_logs": "false"}, {"include_logs": "0"}])
def test_without_being_asked_there_is_no_log(hub: Hub, tag: str, asked: dict):
    published = hub.publish(tags=tag)
    assert hub.get(f"/events/{published['id']}", **asked).json == published


def test_next_retry_at_is_null_in_details(hub: Hub, tag: str):
    body = hub.event(hub.publish(tags=tag)["id"])
    assert body["next_retry_at"] is None


@pytest.mark.parametrize("number", ["9000000000000000000", "0", "-1", "99999999999999999999999", "abc", "1.0", "%F0"])
def test_an_unknown_event_is_404(hub: Hub, number: str):
    assert hub.get(f"/events/{number}").status == 404


@pytest.mark.parametrize(
    "query", ["include_logs=perhaps", "include_logs=", "logs=true", "include_logs=1&include_logs=1"]
)
def test_a_bad_query_is_400(sqlite_hub: Hub, tag: str, query: str):
    event_id = sqlite_hub.publish(tags=tag)["id"]
    assert sqlite_hub.get(f"/events/{event_id}?{query}").status == 400
