"""A claim belongs to the API key that took it: another key with the same worker's name can do nothing with it."""

from typing import Any

import pytest

from tests.http.conftest import Hub, MakeHub


@pytest.fixture
def admin(make_hub: MakeHub, engine: str) -> Hub:
    hub = make_hub(engine)
    return hub.with_key(hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"])


def worker(admin: Hub, name: str) -> tuple[str, Hub]:
    made = admin.post("/api-keys", {"name": name, "scopes": ["work"]}).json
    return made["id"], admin.with_key(made["key"])


def take(hub: Hub, name: str = "w") -> dict[str, Any]:
    answer = hub.get(f"/events/subscribe?tags=a&worker_id={name}")
    assert answer.status == 200, answer
    claim: dict[str, Any] = answer.json
    return claim


def test_another_key_can_do_nothing_with_the_claim(admin: Hub) -> None:
    _, mine = worker(admin, "mine")
    _, other = worker(admin, "other")
    admin.post("/events", {"tags": "a"})
    claim = take(mine)
    number = claim["id"]
    for hub in (other, admin):
        for fence in ({}, {"fence": claim["fence"]}):
            body = {"worker_id": "w", **fence}
            for verb in ("complete", "fail", "start", "heartbeat", "release"):
                more = {"error_message": "x"} if verb == "fail" else {}
                refused = hub.post(f"/events/{number}/{verb}", body | more)
                assert (refused.status, refused.kind) == (409, "claim-lost"), verb
                assert "another API key" in refused.json["detail"]
            (outcome,) = hub.post("/events/complete", {"reports": [{"event_id": number, **body}]}).json["results"]
            assert outcome["status"] == 409
    assert admin.get(f"/events/{number}").json["status"] == "PROCESSING"
    assert mine.post(f"/events/{number}/complete", {"worker_id": "w"}).status == 200


def test_a_rotated_key_keeps_its_claims(admin: Hub) -> None:
    key_id, mine = worker(admin, "mine")
    admin.post("/events", {"tags": "a"})
    number = take(mine)["id"]
    rotated = admin.with_key(admin.post(f"/api-keys/{key_id}/rotate?overlap_seconds=0").json["key"])
    assert rotated.post(f"/events/{number}/complete", {"worker_id": "w"}).status == 200


def test_another_process_knows_whose_claim_it_is(admin: Hub) -> None:
    _, mine = worker(admin, "mine")
    _, other = worker(admin, "other")
    admin.post("/events", {"tags": "a"})
    number = take(mine)["id"]
    admin.server.stop()
    admin.server.start()
    assert admin.with_key(other.key).post(f"/events/{number}/complete", {"worker_id": "w"}).status == 409
    assert admin.with_key(mine.key).post(f"/events/{number}/complete", {"worker_id": "w"}).status == 200


def test_a_claim_without_a_key_is_its_workers(make_hub: MakeHub, engine: str) -> None:
    hub = make_hub(engine)
    hub.post("/events", {"tags": "a"})
    number = take(hub)["id"]
    admin = hub.with_key(hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"])
    assert admin.post(f"/events/{number}/complete", {"worker_id": "w"}).status == 200
