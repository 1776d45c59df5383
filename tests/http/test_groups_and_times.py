"""Dead letters over HTTP by what they died of, and what can be done with such a group; events by their time."""

from typing import Any

from tests.http.conftest import Hub


def work(hub: Hub, tag: str, error: str) -> int:
    hub.publish(title="x", tags=tag)
    number: int = hub.taken(tag)["id"]
    assert hub.fail(number, error_message=error, retry=False).status == 200
    return number


def group_of(hub: Hub, tag: str) -> Any:
    """The group whose example has the tag in its text, which no other test has."""
    found = hub.get("/dlq/groups", error=tag).json
    (group,) = found["groups"]
    return group


def test_a_group_is_found_shown_retried_and_purged(hub: Hub, tag: str) -> None:
    numbers = [work(hub, tag, f"lost after {attempt} s in {tag}x") for attempt in (3, 4, 5)]
    group = group_of(hub, tag)
    assert (group["count"], group["example_ids"]) == (3, numbers[::-1])
    assert group["example_error"] == f"lost after 5 s in {tag}x"
    mark = {"fingerprint": group["fingerprint"]}
    listed = hub.get("/dlq", **mark, limit=2).json
    assert ([letter["id"] for letter in listed["dead_letters"]], listed["total"]) == (numbers[:0:-1], 3)
    last = hub.get("/dlq", **mark, before=listed["next_before"]).json
    assert [letter["id"] for letter in last["dead_letters"]] == numbers[:1]
    counted = hub.post("/dlq/retry", {"filter": mark, "dry_run": True}).json
    assert counted == {"count": 3, "dry_run": True}
    assert (
        hub.post("/dlq/retry", {"filter": {**mark, "until": listed["dead_letters"][1]["dead_at"]}}).json["count"] == 2
    )
    assert hub.get("/dlq/groups", error=tag).json["groups"][0]["count"] == 1
    assert hub.delete("/dlq", older_than_days=0, **mark).json["count"] == 1
    assert hub.get("/dlq/groups", error=tag).json == {"groups": [], "looked_at": 0, "more": False}


def test_what_is_no_fingerprint_is_refused(sqlite_hub: Hub) -> None:
    for wrong in ("abc", "G" * 16, "0" * 17, "'; DROP"):
        assert sqlite_hub.get("/dlq", fingerprint=wrong).status == 400
        assert sqlite_hub.post("/dlq/retry", {"filter": {"fingerprint": wrong}}).status == 422
    assert sqlite_hub.get("/dlq", fingerprint="0" * 16).json["dead_letters"] == []
    assert sqlite_hub.post("/dlq/retry", {"filter": {"fingerprint": "0" * 16}}).json["count"] == 0
    assert sqlite_hub.get("/dlq/groups", before=3).status == 400


def test_events_are_listed_by_time(hub: Hub, tag: str) -> None:
    events = [hub.publish(title=str(number), tags=tag) for number in range(4)]
    ids = [event["id"] for event in events]
    since, until = events[1]["created_at"], events[2]["created_at"]
    found = hub.get("/events", tags=tag, since=since, until=until).json
    assert ([event["id"] for event in found["events"]], found["next_cursor"]) == (ids[2:0:-1], None)
    assert "total" not in found
    page = hub.get("/events", tags=tag, since=since, limit=2).json
    assert ([event["id"] for event in page["events"]], page["next_cursor"]) == (ids[:1:-1], str(ids[2]))
    rest = hub.get("/events", tags=tag, since=since, limit=2, cursor=page["next_cursor"]).json
    assert [event["id"] for event in rest["events"]] == [ids[1]]
    shifted = since.removesuffix("Z") + "+00:00"
    assert hub.get("/events", tags=tag, since=shifted, until=until).json == found


def test_times_that_are_none_are_refused(sqlite_hub: Hub) -> None:
    for wrong in ("yesterday", "2026-01-01", "2026-01-01T00:00:00", "5", ""):
        assert sqlite_hub.get("/events", since=wrong).status == 400
    assert sqlite_hub.get("/events", since="2026-01-01T00:00:00Z", offset=1).status == 400
    for extreme in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert sqlite_hub.get("/events", since=extreme, until=extreme).json["events"] == []
