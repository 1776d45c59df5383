"""Who published an event: idempotency keys are a key's own, by its name, and the event remembers it."""

import pytest

from tests.http.conftest import Hub, MakeHub


@pytest.fixture
def admin(make_hub: MakeHub, engine: str) -> Hub:
    hub = make_hub(engine)
    made = hub.post("/api-keys", {"name": "root", "scopes": ["admin"]})
    return hub.with_key(made.json["key"])


def with_new_key(admin: Hub, name: str, *scopes: str) -> tuple[str, Hub]:
    made = admin.post("/api-keys", {"name": name, "scopes": list(scopes)})
    assert made.status == 201, made
    return made.json["id"], admin.with_key(made.json["key"])


def test_idempotency_keys_belong_to_the_name_of_the_api_key(admin: Hub) -> None:
    key_id, shop = with_new_key(admin, "shop", "publish")
    _, till = with_new_key(admin, "till", "publish")
    job = {"tags": "a", "payload": {"n": 1}}
    first = shop.post("/events", job, headers={"Idempotency-Key": "k"})
    other = till.post("/events", {"tags": "a", "payload": {"n": 2}}, headers={"Idempotency-Key": "k"})
    assert (first.status, other.status) == (201, 201)
    assert first.json["id"] != other.json["id"]
    rotated = admin.post(f"/api-keys/{key_id}/rotate?overlap_seconds=0").json["key"]
    again = admin.with_key(rotated).post("/events", job, headers={"Idempotency-Key": "k"})
    assert (again.status, again.json["id"]) == (200, first.json["id"])
    batch = till.post("/events/batch", [{**job, "idempotency_key": "k"}, {"tags": "a", "idempotency_key": "l"}])
    assert batch.status == 422, "the till's own key stands for another event"


def test_an_event_tells_by_which_key_it_was_published(admin: Hub) -> None:
    _, shop = with_new_key(admin, "shop", "publish")
    made = shop.post("/events", {"tags": "a", "payload": 1})
    assert made.json["published_by"] == "shop"
    number = made.json["id"]
    assert admin.get(f"/events/{number}").json["published_by"] == "shop"
    again = admin.post(f"/events/{number}/replay", {}).json
    assert admin.get(f"/events/{again['id']}").json["published_by"] == "root"


def test_without_keys_nobody_is_named(hub: Hub, tag: str) -> None:
    assert "published_by" not in hub.post("/events", {"tags": tag}).json
