"""A claim between its beginning and its end: start, heartbeat, release, reset."""

from datetime import datetime

import pytest

from tests.http.api import Answer
from tests.http.conftest import Hub

UNKNOWN = 9_000_000_000_000_000_000


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def tell(hub: Hub, what: str, event_id: int, worker: str, **body: object) -> Answer:
    return hub.post(f"/events/{event_id}/{what}", {"worker_id": worker, **body})


def test_start_is_logged_and_extends_the_lease(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    claim = hub.take(tag, "w", lease_seconds=10)
    answer = tell(hub, "start", event_id, "w")
    assert answer.status == 200
    body = answer.json
    assert list(body) == ["event_id", "worker_id", "fence", "lease_expires_at"]
    assert (body["event_id"], body["worker_id"], body["fence"]) == (event_id, "w", claim["fence"])
    assert (moment(body["lease_expires_at"]) - moment(claim["lease_expires_at"])).total_seconds() > 250
    event = hub.event(event_id, logs=True)
    assert event["status"] == "PROCESSING"
    assert (event["logs"][-1]["action"], event["logs"][-1]["worker_id"]) == ("STARTED", "w")


def test_a_heartbeat_extends_the_lease_and_leaves_no_log_row(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    claim = hub.take(tag, "w", lease_seconds=10)
    first = tell(hub, "heartbeat", event_id, "w", lease_seconds=60, fence=claim["fence"]).json
    second = tell(hub, "heartbeat", event_id, "w", lease_seconds=120).json
    ends = [moment(body["lease_expires_at"]) for body in (claim, first, second)]
    assert 45 < (ends[1] - ends[0]).total_seconds() < 60
    assert 55 < (ends[2] - ends[1]).total_seconds() < 70
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED"]


@pytest.mark.parametrize("what", ["start", "heartbeat"])
def test_a_lease_that_was_asked_for_is_never_made_shorter(hub: Hub, tag: str, what: str):
    event_id = hub.publish(tags=tag)["id"]
    claim = hub.take(tag, "w", lease_seconds=3600)
    for asked in ({}, {"lease_seconds": 1}):
        assert tell(hub, what, event_id, "w", **asked).json["lease_expires_at"] == claim["lease_expires_at"]


def test_heartbeats_keep_a_claim_beyond_its_first_lease(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    claim = hub.take(tag, "w", lease_seconds=1)
    tell(hub, "heartbeat", event_id, "w", lease_seconds=300)
    assert hub.take(tag, "other", wait=1.5) is None
    assert hub.complete(event_id, "w", fence=claim["fence"]).status == 200


def test_a_released_event_is_ready_at_once_and_no_attempt_is_charged(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    fence = hub.take(tag, "w1")["fence"]
    answer = tell(hub, "release", event_id, "w1", fence=fence)
    assert (answer.status, answer.raw) == (204, b"")
    event = hub.event(event_id, logs=True)
    assert (event["status"], event["retry_count"], event["next_retry_at"]) == ("PENDING", 0, None)
    assert [entry["action"] for entry in event["logs"]] == ["PUBLISHED", "PICKED", "RELEASED"]
    again = hub.take(tag, "w2")
    assert (again["id"], again["attempt"], again["retry_count"]) == (event_id, 1, 0)
    assert again["fence"] > fence


@pytest.mark.parametrize("what", ["start", "heartbeat", "release"])
def test_only_the_worker_that_has_the_claim_can_do_it(hub: Hub, tag: str, what: str):
    event_id = hub.publish(tags=tag)["id"]
    never = tell(hub, what, event_id, "w")
    fence = hub.take(tag, "w")["fence"]
    other = tell(hub, what, event_id, "other")
    stale = tell(hub, what, event_id, "w", fence=fence + 1)
    for answer in (never, other, stale):
        assert (answer.status, answer.kind) == (409, "claim-lost")
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED"]
    assert hub.complete(event_id, "w").status == 200
    assert tell(hub, what, event_id, "w").status == 409
    unknown = tell(hub, what, UNKNOWN, "w")
    assert (unknown.status, unknown.kind) == (404, "not-found")


@pytest.mark.parametrize("what", ["start", "heartbeat", "release"])
def test_a_lost_claim_cannot_be_kept_or_given_back(hub: Hub, tag: str, what: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "slow", lease_seconds=1)
    successor = hub.taken(tag, "next")
    answer = tell(hub, what, event_id, "slow")
    assert (answer.status, answer.kind) == (409, "claim-lost")
    assert hub.complete(event_id, "next", fence=successor["fence"]).status == 200


def test_reset_makes_an_event_pending_at_once_and_voids_the_claim(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    fence = hub.take(tag, "lost")["fence"]
    answer = hub.post(f"/events/{event_id}/reset?reason=worker_timeout")
    assert answer.status == 200
    assert (answer.json["id"], answer.json["status"], answer.json["next_retry_at"]) == (event_id, "PENDING", None)
    entry = hub.event(event_id, logs=True)["logs"][-1]
    assert (entry["action"], entry["error_message"]) == ("RESET", "worker_timeout")
    late = hub.complete(event_id, "lost", fence=fence)
    assert (late.status, late.kind) == (409, "claim-lost")
    assert hub.take(tag, "next")["id"] == event_id
    assert hub.complete(event_id, "lost").status == 409
    assert hub.complete(event_id, "next").status == 200


def test_reset_needs_no_reason(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "w")
    assert hub.post(f"/events/{event_id}/reset").json["status"] == "PENDING"


def test_only_what_is_processing_can_be_reset(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]

    def refused() -> bool:
        before = quick.event(event_id, logs=True)
        answer = quick.post(f"/events/{event_id}/reset?reason=why")
        assert quick.event(event_id, logs=True) == before
        return (answer.status, answer.kind) == (409, "not-processing")

    assert refused()
    for _ in range(3):
        quick.taken(tag, "w")
        quick.fail(event_id, "w")
        assert refused()
    done = quick.publish(tags=tag)["id"]
    quick.taken(tag, "w")
    quick.complete(done, "w")
    assert quick.post(f"/events/{done}/reset").status == 409
    assert quick.post(f"/events/{UNKNOWN}/reset").status == 404
