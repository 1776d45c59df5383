"""Seed 003 on orphans and worker tracking: GET /orphans, GET /workers; and the numbers at /stats and /metrics."""

import re
from typing import Any

import pytest

from tests.http.conftest import Hub


def orphans(hub: Hub, **query: Any) -> dict[int, Any]:
    body = hub.get("/orphans", limit=1000, **query).json
    assert body["total"] == len(body["orphans"])
    return {orphan["id"]: orphan for orphan in body["orphans"]}


def workers(hub: Hub) -> dict[str, Any]:
    body = hub.get("/workers").json
    assert body["total"] == len(body["workers"])
    return {worker["worker_id"]: worker for worker in body["workers"]}


def test_silent_claims_are_orphans_and_stay_with_their_worker(hub: Hub, tag: str, worker: str):
    event_id = hub.publish(tags=tag, title="Lost?")["id"]
    claim = hub.take(tag, worker)
    assert event_id not in orphans(hub)
    orphan = orphans(hub, silent_seconds=0)[event_id]
    assert orphan == {
        "id": event_id,
        "title": "Lost?",
        "tags": tag,
        "status": "PROCESSING",
        "worker_id": worker,
        "attempt": 1,
        "silent_since": hub.event(event_id, logs=True)["logs"][-1]["created_at"],
        "lease_expires_at": claim["lease_expires_at"],
    }
    assert hub.event(event_id)["status"] == "PROCESSING"
    assert hub.complete(event_id, worker).status == 200
    assert event_id not in orphans(hub, silent_seconds=0)


def test_pending_and_settled_events_are_no_orphans(hub: Hub, tag: str, worker: str):
    waiting = hub.publish(tags=tag)["id"]
    released = hub.take(tag, worker)["id"]
    hub.post(f"/events/{released}/release", {"worker_id": worker})
    assert waiting not in orphans(hub, silent_seconds=0)


def test_every_worker_is_seen_with_its_last_action_and_open_claims(hub: Hub, tag: str, worker: str):
    ids = [hub.publish(tags=tag)["id"] for _ in range(3)]
    assert worker not in workers(hub)
    hub.take(f"{tag}-none", worker)
    polled = workers(hub)[worker]
    assert (polled["open_claims"], polled["stale"]) == (0, False)
    hub.get("/events/subscribe", tags=tag, worker_id=worker, limit=3)
    picked = workers(hub)[worker]
    assert (picked["last_action"], picked["open_claims"], picked["stale"]) == ("PICKED", 3, False)
    hub.complete(ids[0], worker)
    hub.fail(ids[1], worker)
    failed = workers(hub)[worker]
    assert (failed["last_action"], failed["open_claims"]) == ("FAILED", 1)
    assert failed["first_seen"] == polled["first_seen"] <= failed["last_seen"]
    hub.post(f"/events/{ids[2]}/release", {"worker_id": worker})
    assert workers(hub)[worker]["open_claims"] == 0


def test_a_worker_whose_event_was_taken_over_holds_no_claim_any_more(hub: Hub, tag: str, worker: str):
    hub.publish(tags=tag)
    hub.take(tag, worker, lease_seconds=1)
    assert hub.taken(tag, f"{worker}-next")  # which shows that the time has passed
    seen = workers(hub)
    assert (seen[worker]["open_claims"], seen[f"{worker}-next"]["open_claims"]) == (0, 1)


@pytest.mark.parametrize("path", ["/orphans?limit=0", "/orphans?silent_seconds=-1", "/workers?limit=x", "/stats?a=b"])
def test_a_bad_query_is_400(sqlite_hub: Hub, path: str):
    assert sqlite_hub.get(path).status == 400


def test_stats_tell_the_depth_of_the_work_queue_in_public_words(hub: Hub, tag: str):
    def depth() -> dict[str, int]:
        (work,) = [queue for queue in hub.get("/stats").json["queues"] if queue["queue"] == "work"]
        return dict(work["depth"])

    hub.publish(tags=tag)
    found = depth()
    assert found["PENDING"] >= 1
    assert set(found) <= {"PENDING", "PROCESSING", "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED"}


def test_metrics_count_what_was_done(hub: Hub, tag: str):
    def total(prefix: str) -> float:
        lines = hub.get("/metrics").raw.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))

    answer = hub.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    before = total("eventhub_")
    hub.publish(tags=tag)
    hub.complete(hub.take(tag, "w")["id"], "w")
    assert total("eventhub_") > before
    words = answer.raw.decode()
    assert tag not in words


def test_health_and_ready(hub: Hub):
    health, ready = hub.get("/health"), hub.get("/ready")
    assert (health.status, health.json["status"]) == (200, "ok")
    assert (ready.status, ready.json["status"]) == (200, "ready")


def test_the_documentation_comes_whole_from_the_server_and_runs_no_script(sqlite_hub: Hub):
    page = sqlite_hub.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    text = page.raw.decode()
    assert "<script" not in text
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]*)""", text)
    assert links
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links)
    assert sqlite_hub.get("/docs.css").headers["content-type"].startswith("text/css")
    document = sqlite_hub.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    for path in document["paths"]:
        assert path in text


def test_totals_count_what_is_not_on_the_page(hub: Hub, tag: str):
    for number in range(3):
        hub.publish(tags=tag)
        hub.take(tag, f"{tag}:{number}")
    for path, query in (("/orphans", {"silent_seconds": 0}), ("/workers", {})):
        page = hub.get(path, limit=1, **query).json
        assert len(page[path[1:]]) == 1
        everything = hub.get(path, limit=1000, **query).json
        assert 3 <= page["total"] == everything["total"] == len(everything[path[1:]])
