"""Seed 003, section 6: GET /events with filters, totals and pages."""

import pytest

from tests.http.conftest import Hub


def test_the_example_of_the_seed(hub: Hub, tag: str):
    first = hub.publish(title="Send Email Notification", tags=f"{tag},priority-high,notification")
    second = hub.publish(title="Process Payment", tags=f"{tag},payment", payload={"large": "x" * 1000})
    hub.take(tag, "w")
    done = hub.complete(first["id"], "w").json
    hub.take(tag, "w")
    failed = hub.fail(second["id"], "w").json
    answer = hub.get("/events", tags=tag, limit=10)
    assert answer.status == 200
    body = answer.json
    assert sorted(body) == ["events", "limit", "offset", "total"]
    assert (body["total"], body["limit"], body["offset"]) == (2, 10, 0)
    assert sorted(body["events"], key=lambda event: event["id"]) == [
        {
            "id": first["id"],
            "title": "Send Email Notification",
            "status": "COMPLETED",
            "tags": f"{tag},priority-high,notification",
            "retry_count": 0,
            "created_at": first["created_at"],
            "updated_at": done["created_at"],
        },
        {
            "id": second["id"],
            "title": "Process Payment",
            "status": "PENDING",
            "tags": f"{tag},payment",
            "retry_count": 1,
            "next_retry_at": failed["next_retry_at"],
            "created_at": second["created_at"],
            "updated_at": failed["created_at"],
        },
    ]


def test_events_are_listed_by_queue(hub: Hub, tag: str):
    number = hub.publish(tags=tag)["id"]
    assert [event["id"] for event in hub.get("/events", tags=tag, queue="work").json["events"]] == [number]
    nothing = hub.get("/events", tags=tag, queue="other").json
    assert (nothing["events"], nothing["total"]) == ([], 0)
    assert hub.get("/events", queue="a b").status == 400


def test_next_retry_at_is_left_out_of_lists_when_there_is_none(hub: Hub, tag: str):
    hub.publish(tags=tag)
    (listed,) = hub.get("/events", tags=tag).json["events"]
    assert "next_retry_at" not in listed
    assert "payload" not in listed


def test_the_limit_is_20_and_the_offset_0_unless_said_otherwise(hub: Hub, tag: str):
    hub.post("/events/batch", {"events": [{"tags": tag}] * 25})
    body = hub.get("/events", tags=tag).json
    assert (len(body["events"]), body["limit"], body["offset"], body["total"]) == (20, 20, 0, 25)
    assert [event["id"] for event in body["events"]] == sorted((e["id"] for e in body["events"]), reverse=True)


def test_filters_are_a_strict_and_and_the_total_counts_the_filter(hub: Hub, tag: str):
    other = f"{tag}-other"
    made = [
        hub.publish(tags=tags, **more)["id"]
        for tags, more in (
            (tag, {}),
            (tag, {"event_type": "order.placed"}),
            (other, {"event_type": "order.placed"}),
            (f"{tag},{other}", {"event_type": "order.paid"}),
        )
    ]
    hub.take(tag, "w", limit=2)
    hub.complete(made[0], "w")

    def ids(**query: object) -> list[int]:
        body = hub.get("/events", **query).json
        assert body["total"] == len(body["events"])
        return sorted(event["id"] for event in body["events"])

    assert ids(tags=tag) == [made[0], made[1], made[3]]
    assert ids(tags=f"{tag}, {other}") == made
    assert ids(tags=tag, status="COMPLETED") == [made[0]]
    assert ids(tags=tag, status="PROCESSING") == [made[1]]
    assert ids(tags=tag, status="PENDING") == [made[3]]
    assert ids(tags=f"{tag},{other}", type="order.placed") == [made[1], made[2]]
    assert ids(tags=other, type="order.placed", status="PENDING") == [made[2]]
    assert ids(tags=tag, type="order.placed", status="PENDING") == []
    assert ids(tags=tag, status="FAILED") == ids(tags=tag, status="COMPLETED_WITH_ERRORS") == []
    assert ids(tags=tag[:-1]) == []


def test_pages_by_offset_never_overlap_and_count_the_same_total(hub: Hub, tag: str):
    hub.post("/events/batch", {"events": [{"tags": tag}] * 11})
    pages = [hub.get("/events", tags=tag, limit=4, offset=offset).json for offset in (0, 4, 8, 12)]
    assert [len(page["events"]) for page in pages] == [4, 4, 3, 0]
    assert {page["total"] for page in pages} == {11}
    assert [page["offset"] for page in pages] == [0, 4, 8, 12]
    ids = [event["id"] for page in pages for event in page["events"]]
    assert len(set(ids)) == 11


def test_pages_by_cursor_never_overlap_even_while_others_publish(hub: Hub, tag: str):
    made = {hub.publish(tags=tag)["id"] for _ in range(9)}
    seen: list[int] = []
    cursor: str | None = "start"
    while cursor is not None:
        page = hub.get("/events", tags=tag, limit=2, cursor=cursor).json
        assert "total" not in page
        seen += [event["id"] for event in page["events"]]
        cursor = page["next_cursor"]
        hub.publish(tags=tag)
    assert len(seen) == len(set(seen))
    assert set(seen) == made


def test_a_status_filter_pages_by_cursor_too(hub: Hub, tag: str):
    made = [hub.publish(tags=tag)["id"] for _ in range(6)]
    for _ in range(3):
        hub.complete(hub.take(tag, "w")["id"], "w")
    seen = []
    cursor: str | None = "start"
    while cursor is not None:
        page = hub.get("/events", tags=tag, status="COMPLETED", limit=1, cursor=cursor).json
        seen += [event["id"] for event in page["events"]]
        cursor = page["next_cursor"]
    assert seen == made[2::-1]


@pytest.mark.parametrize(
    "query",
    [
        "status=DONE",
        "status=pending",
        "status=",
        "status=null",
        "offset=null",
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=ten",
        "limit=1.5",
        "limit=",
        "offset=-1",
        "offset=x",
        "offset=99999999999999999999",
        "tags=",
        "tags=a%20b",
        "type=",
        "type=a/b",
        "cursor=mine",
        "cursor=0",
        "cursor=99999999999999999999",
        "cursor=start&offset=0",
        "status=PENDING&status=FAILED",
        "colour=red",
        "tags=%00",
    ],
)
def test_a_bad_query_is_400(hub: Hub, query: str):
    answer = hub.get(f"/events?{query}")
    assert answer.status == 400, answer


def test_lists_are_answered_to_head_too_without_a_body(sqlite_hub: Hub):
    answer = sqlite_hub("HEAD", "/events")
    assert (answer.status, answer.raw) == (200, b"")
    assert int(answer.headers["content-length"]) > 0
