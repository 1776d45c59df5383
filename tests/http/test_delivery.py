"""When and in which order work is given out: later, sooner, one after the other; and the trace that goes along."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.http.conftest import Hub

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_delayed_event_is_not_offered_before_its_time(hub: Hub, tag: str):
    published = hub.publish(tags=tag, delay_seconds=3600)
    assert moment(published["next_retry_at"]) - moment(published["created_at"]) == timedelta(hours=1)
    assert published["status"] == "PENDING"
    assert hub.event(published["id"]) == published
    assert hub.take(tag) is None


def test_a_delayed_event_reaches_a_waiting_worker_when_it_is_due(hub: Hub, tag: str):
    published = hub.publish(tags=tag, delay_seconds=0.7)
    assert hub.take(tag) is None
    taken = hub.taken(tag)
    assert taken["id"] == published["id"]
    assert datetime.now(UTC) >= moment(published["created_at"]) + timedelta(seconds=0.6)


def test_deliver_at_says_the_time_itself(hub: Hub, tag: str):
    when = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    later = hub.publish(tags=tag, deliver_at=when.isoformat())
    assert moment(later["next_retry_at"]) == when
    assert hub.take(tag) is None
    zoned = when.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat()
    assert moment(hub.publish(tags=tag, deliver_at=zoned)["next_retry_at"]) == when
    past = hub.publish(tags=tag, deliver_at="2020-01-01T00:00:00Z")
    assert hub.take(tag)["id"] == past["id"]


@pytest.mark.parametrize(
    "event",
    [
        {"deliver_at": "2030-01-01T00:00:00"},
        {"deliver_at": "soon"},
        {"deliver_at": 1893456000},
        {"deliver_at": "9999-12-31T23:59:59.999999Z"},
        {"deliver_at": "9999-12-31T23:59:59-12:00"},
        {"deliver_at": (datetime.now(UTC) + timedelta(days=3651)).isoformat()},
        {"delay_seconds": -1},
        {"delay_seconds": 1e300},
        {"delay_seconds": "5"},
        {"deliver_at": "2030-01-01T00:00:00Z", "delay_seconds": 5},
        {"priority": 1001},
        {"priority": -1001},
        {"priority": "high"},
        {"ordering_key": ""},
        {"ordering_key": "k" * 256},
        {"metadata": {"a": 1}},
        {"metadata": "a"},
    ],
)
def test_a_bad_wish_is_422(sqlite_hub: Hub, tag: str, event: dict):
    assert sqlite_hub.post("/events", {"tags": tag, **event}).status == 422
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"])
def test_the_ends_of_the_calendar_are_no_server_error(hub: Hub, tag: str, when: str):
    answer = hub.post("/events", {"tags": tag, "deliver_at": when})
    assert answer.status in (201, 422)
    if answer.status == 201:
        assert hub.event(answer.json["id"])["status"] == "PENDING"


def test_higher_priorities_go_first_and_equal_ones_by_age(hub: Hub, tag: str):
    wanted = [(0, "a"), (5, "b"), (-5, "c"), (1000, "d"), (5, "e"), (0, "f"), (-1000, "g")]
    for priority, name in wanted:
        hub.publish(tags=tag, payload=name, priority=priority)
    taken = [hub.take(tag)["payload"] for _ in wanted]
    assert taken == ["d", "b", "e", "a", "f", "c", "g"]


def test_of_an_ordering_key_one_is_in_flight_and_they_go_in_order(hub: Hub, tag: str):
    ids = [hub.publish(tags=tag, ordering_key=f"k-{tag}")["id"] for _ in range(3)]
    for event_id in ids:
        taken = hub.taken(tag, "w1")
        assert (taken["id"], taken["ordering_key"]) == (event_id, f"k-{tag}")
        assert hub.take(tag, "w2") is None
        assert hub.get("/events/subscribe", tags=tag, worker_id="w3", limit=10).json["events"] == []
        hub.complete(event_id, "w1")


def test_other_keys_and_none_do_not_wait_for_it(hub: Hub, tag: str):
    first = hub.publish(tags=tag, ordering_key=f"a-{tag}")["id"]
    hub.publish(tags=tag, ordering_key=f"a-{tag}")
    other = hub.publish(tags=tag, ordering_key=f"b-{tag}")["id"]
    free = hub.publish(tags=tag)["id"]
    assert {hub.take(tag)["id"] for _ in range(3)} == {first, other, free}
    assert hub.take(tag) is None


def test_a_failed_one_that_waits_for_its_retry_holds_its_successors(hub: Hub, tag: str):
    head = hub.publish(tags=tag, ordering_key=f"k-{tag}")["id"]
    hub.publish(tags=tag, ordering_key=f"k-{tag}")
    hub.take(tag, "w")
    hub.fail(head, "w")
    assert hub.take(tag, "w") is None


def test_a_dead_one_lets_its_successors_go(quick: Hub, tag: str):
    head = quick.publish(tags=tag, ordering_key=f"k-{tag}")["id"]
    second = quick.publish(tags=tag, ordering_key=f"k-{tag}")["id"]
    for _ in range(3):
        assert quick.taken(tag, "w")["id"] == head
        quick.fail(head, "w")
    assert quick.event(head)["status"] == "FAILED"
    assert quick.taken(tag, "w")["id"] == second


def test_the_trace_of_the_publisher_reaches_the_worker(hub: Hub, tag: str):
    headers = {"traceparent": PARENT, "tracestate": "vendor=abc"}
    published = hub.post("/events", {"tags": tag, "metadata": {"tenant": "acme"}}, headers=headers).json
    wanted = {"tenant": "acme", "traceparent": PARENT, "tracestate": "vendor=abc"}
    assert published["metadata"] == wanted
    assert hub.take(tag)["metadata"] == wanted


def test_the_trace_goes_along_with_batches_and_cloud_events(hub: Hub, tag: str):
    hub.post("/events/batch", {"events": [{"tags": tag}, {"tags": tag}]}, headers={"traceparent": PARENT})
    binary = {"ce-specversion": "1.0", "ce-id": tag, "ce-source": "/s", "ce-type": "t", "ce-tags": tag}
    hub.post("/events", raw=b"{}", headers={**binary, "traceparent": PARENT, "content-type": "application/json"})
    assert [hub.take(tag)["metadata"]["traceparent"] for _ in range(3)] == [PARENT] * 3


def test_a_trace_in_the_metadata_is_not_overwritten_and_a_malformed_one_is_left_out(hub: Hub, tag: str):
    own = hub.post("/events", {"tags": tag, "metadata": {"traceparent": "mine"}}, headers={"traceparent": PARENT})
    assert own.json["metadata"] == {"traceparent": "mine"}
    malformed = hub.post("/events", {"tags": tag}, headers={"traceparent": "00-nonsense"})
    assert (malformed.status, "metadata" in malformed.json) == (201, False)


def test_the_trace_is_no_part_of_what_an_idempotency_key_stands_for(hub: Hub, tag: str):
    first = hub.post("/events", {"tags": tag, "idempotency_key": tag}, headers={"traceparent": PARENT})
    other = PARENT.replace("b7ad", "a1b2")
    again = hub.post("/events", {"tags": tag, "idempotency_key": tag}, headers={"traceparent": other})
    assert (again.status, again.json["id"]) == (200, first.json["id"])
