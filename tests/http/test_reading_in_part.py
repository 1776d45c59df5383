"""Keys that are narrowed: what they may publish and read, in every route that could tell more; and metrics alone."""

import pytest

from eventhub.http.routes import OPERATIONS
from tests.http.conftest import Hub, MakeHub


@pytest.fixture
def admin(make_hub: MakeHub, engine: str) -> Hub:
    hub = make_hub(engine, "--allow-private", "127.0.0.0/8", "--retry-seconds", "0")
    made = hub.post("/api-keys", {"name": "root", "scopes": ["admin"]})
    return hub.with_key(made.json["key"])


def keyed(admin: Hub, *scopes: str) -> Hub:
    made = admin.post("/api-keys", {"name": "-".join(scopes).replace(":", "-"), "scopes": list(scopes)})
    assert made.status == 201, made
    return admin.with_key(made.json["key"])


def ids(hub: Hub, query: str = "") -> list[int]:
    answer = hub.get(f"/events?{query}")
    assert answer.status == 200, answer
    return [event["id"] for event in answer.json["events"]]


def test_events_of_others_are_in_no_list_and_not_there_by_id(admin: Hub) -> None:
    order = admin.post("/events", {"event_type": "order.placed", "payload": "mine"}).json["id"]
    user = admin.post("/events", {"event_type": "user.created", "payload": "not mine"}).json["id"]
    mail = admin.post("/events", {"tags": "email,eu", "payload": "tagged"}).json["id"]
    reader, by_tag = keyed(admin, "read:order.*"), keyed(admin, "read:#email")
    assert (ids(reader), ids(by_tag)) == ([order], [mail])
    assert ids(keyed(admin, "read:order.*", "read:#eu")) == [mail, order]
    assert ids(reader, "type=user.created") == ids(reader, "tags=email") == []
    assert "total" not in reader.get("/events").json
    assert reader.get("/events?offset=1").status == 400
    assert reader.get(f"/events/{order}?include_logs=true").json["payload"] == "mine"
    unseen, unknown = reader.get(f"/events/{user}?include_logs=true"), reader.get("/events/999999")
    assert (unseen.status, unseen.json["detail"]) == (404, f"Event not found: {user}")
    assert unseen.json["type"] == unknown.json["type"]
    assert by_tag.get(f"/events/{mail}").status == 200
    assert by_tag.get(f"/events/{order}").status == 404


def test_pages_of_what_may_be_seen_are_complete(admin: Hub) -> None:
    kinds = ["order.placed" if n % 7 == 0 else "user.created" for n in range(500)]
    made = admin.post("/events/batch", [{"event_type": kind, "payload": n} for n, kind in enumerate(kinds)])
    expected = [one["id"] for one, kind in zip(made.json["events"], kinds, strict=True) if kind == "order.placed"]
    reader, found = keyed(admin, "read:order.*"), list[int]()
    cursor: str | None = "start"
    while cursor is not None:
        page = reader.get(f"/events?limit=20&cursor={cursor}").json
        found += [event["id"] for event in page["events"]]
        cursor = page["next_cursor"]
    assert found == expected[::-1]


def test_messages_and_dead_letters_of_others_are_not_shown(admin: Hub) -> None:
    whom = admin.post("/subscribers", {"name": "b", "url": "http://127.0.0.1:9999/", "event_type": "*"}).json["id"]
    admin.post(f"/subscribers/{whom}/pause")
    numbers = [admin.post("/events", {"event_type": kind, "payload": 1}).json["id"] for kind in ("order.placed", "a.b")]
    admin.until("/messages", lambda page: len(page["messages"]) == 2)
    messages = {m["event_id"]: m["id"] for m in admin.get("/messages").json["messages"]}
    reader = keyed(admin, "read:order.*")
    assert [m["event_id"] for m in reader.get("/messages").json["messages"]] == [numbers[0]]
    assert reader.get(f"/messages?event_id={numbers[1]}").json["messages"] == []
    assert reader.get(f"/messages/{messages[numbers[0]]}").status == 200
    assert reader.get(f"/messages/{messages[numbers[1]]}").status == 404
    for message in messages.values():
        assert admin.post(f"/messages/{message}/dead-letter").status == 200
    page = reader.get("/dlq").json
    assert [letter["event_id"] for letter in page["dead_letters"]] == [numbers[0]]
    assert "total" not in page
    assert reader.get(f"/dlq/{messages[numbers[0]]}").status == 200
    assert reader.get(f"/dlq/{messages[numbers[1]]}").status == 404


def test_whatever_tells_of_everything_is_refused_to_a_key_that_may_read_in_part(admin: Hub) -> None:
    reader = keyed(admin, "read:order.*")
    refused = [op for op in OPERATIONS if op.scope == "read" and not op.in_part and op.method == "GET"]
    assert {"stats", "workers", "orphans", "overview", "live", "history"} <= {op.name for op in refused}
    for operation in refused:
        answer = reader.get(operation.path.replace("{id}", "1").replace("{key}", "k"))
        assert answer.status == 403, operation.path


def test_metrics_have_a_scope_that_reads_nothing_else(admin: Hub) -> None:
    prometheus = keyed(admin, "metrics")
    assert prometheus.get("/metrics").status == 200
    assert keyed(admin, "read").get("/metrics").status == 200
    assert keyed(admin, "read:order.*").get("/metrics").status == 403
    assert keyed(admin, "publish").get("/metrics").status == 403
    for path in ("/events", "/events/1", "/stats", "/overview", "/dlq", "/messages", "/audit", "/openapi.json"):
        assert prometheus.get(path).status == 403, path


@pytest.mark.parametrize("scope", ["admin", "publish"])
def test_the_hubs_own_types_are_published_by_nobody_else(admin: Hub, scope: str) -> None:
    hub = keyed(admin, scope)
    forged = {"event_type": "hub.subscriber.disabled", "payload": {"subscriber": 1}}
    assert hub.post("/events", forged).status == 403
    assert hub.post("/events", {**forged, "tags": "a"}).status == 403
    assert hub.post("/events/batch", [{"tags": "a"}, forged]).status == 403
    cloud = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "hub.message.dead"}
    assert hub.post("/events", {"a": 1}, headers=cloud).status == 403
    assert hub.post("/events", {"event_type": "hubs.x", "payload": 1}).status == 202
    assert admin.get("/events?type=hub.subscriber.disabled").json["total"] == 0


def test_a_narrowed_publisher_uses_the_tags_it_names(admin: Hub) -> None:
    narrow, wider = keyed(admin, "publish:order.*"), keyed(admin, "publish:order.*", "publish:#email")
    event = {"event_type": "order.placed", "payload": 1}
    assert narrow.post("/events", event).status == 202
    refused = narrow.post("/events", {**event, "tags": "payroll"})
    assert (refused.status, refused.kind) == (403, "forbidden")
    assert wider.post("/events", {**event, "tags": "email"}).status == 201
    assert wider.post("/events", {"tags": "email"}).status == 201
    assert wider.post("/events", {**event, "tags": "email,payroll"}).status == 403
