"""Seed 003, section 1: POST /events makes a job."""

import pytest

from tests.http.conftest import Hub

EXAMPLE = {
    "title": "Send Email Notification",
    "description": "Send welcome email to new user",
    "tags": "email,priority-high,notification",
    "payload": {
        "user_id": 12345,
        "email": "user@example.com",
        "template": "welcome",
        "variables": {"name": "Alice", "signup_date": "2025-12-24"},
    },
}


def test_the_example_of_the_seed_is_answered_with_exactly_its_body(hub: Hub):
    answer = hub.post("/events", EXAMPLE)
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    created = body["created_at"]
    assert isinstance(body.pop("id"), int)
    assert body == {
        **EXAMPLE,
        "status": "PENDING",
        "retry_count": 0,
        "max_retries": 3,
        "next_retry_at": None,
        "created_at": created,
        "updated_at": created,
    }


def test_the_answer_has_the_members_in_the_order_of_the_seed(hub: Hub):
    members = "id title description tags status payload retry_count max_retries next_retry_at created_at updated_at"
    assert list(hub.post("/events", EXAMPLE).json) == members.split()


def test_a_published_job_reads_back_as_it_was_answered(hub: Hub):
    published = hub.post("/events", EXAMPLE).json
    assert hub.event(published["id"]) == published


def test_ids_grow_in_the_order_of_publishing(hub: Hub, tag: str):
    ids = [hub.publish(tags=tag)["id"] for _ in range(5)]
    assert ids == sorted(set(ids))


def test_title_description_and_payload_may_be_left_out(hub: Hub, tag: str):
    body = hub.publish(tags=tag)
    assert (body["title"], body["description"], body["payload"]) == (None, None, None)
    assert hub.event(body["id"]) == body


@pytest.mark.parametrize("sent", ["{0}a,{0}b", "{0}a, {0}b", "  {0}a ,{0}b  ", "{0}b,{0}a,{0}b", "{0}a,,{0}b,"])
def test_tags_as_text_are_echoed_as_they_were_sent_and_blanks_do_not_count(hub: Hub, tag: str, sent: str):
    text = sent.format(tag)
    published = hub.publish(tags=text)
    assert published["tags"] == text
    assert hub.event(published["id"])["tags"] == text
    taken = hub.take(f"{tag}b")
    assert (taken["id"], taken["tags"]) == (published["id"], text)


def test_tags_as_a_list_are_the_same_tags(hub: Hub, tag: str):
    published = hub.publish(tags=[f"{tag}a", f" {tag}b "])
    assert [part.strip() for part in published["tags"].split(",")] == [f"{tag}a", f"{tag}b"]
    assert hub.event(published["id"])["tags"] == published["tags"]
    assert hub.take(f"{tag}b")["id"] == published["id"]


@pytest.mark.parametrize(
    "payload",
    [
        {"a": [1, 2.5, True, None, "ü €😀"]},
        [],
        "just text",
        "{}",
        "",
        0,
        -1.5,
        False,
        None,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        {"tab": "a\tb", "quote": '"', "slash": "\\"},
        {"": {"": ""}},
    ],
    ids=repr,
)
def test_any_json_value_is_a_payload_and_reaches_the_worker_as_it_is(hub: Hub, tag: str, payload: object):
    published = hub.publish(tags=tag, payload=payload)
    assert published["payload"] == payload
    assert type(published["payload"]) is type(payload)
    taken = hub.take(tag)
    assert taken["payload"] == payload
    assert type(taken["payload"]) is type(payload)
    assert hub.event(published["id"])["payload"] == payload


def test_members_beyond_the_seed_appear_when_they_were_set(hub: Hub, tag: str):
    event = {
        "tags": tag,
        "event_type": "order.placed",
        "metadata": {"tenant": "acme"},
        "ordering_key": f"key-{tag}",
        "idempotency_key": f"key-{tag}",
    }
    published = hub.publish(**event)
    assert event.items() <= published.items()
    assert hub.event(published["id"]) == published
    taken = hub.take(tag)
    assert (taken["event_type"], taken["metadata"], taken["ordering_key"]) == (
        "order.placed",
        {"tenant": "acme"},
        f"key-{tag}",
    )


def test_type_is_another_name_of_event_type(hub: Hub, tag: str):
    assert hub.publish(tags=tag, type="order.placed")["event_type"] == "order.placed"
    both = hub.post("/events", {"tags": tag, "type": "order.placed", "event_type": "order.paid"})
    assert both.status == 422
    assert hub.publish(tags=tag, type="order.paid", event_type="order.paid")["event_type"] == "order.paid"


def test_a_broadcast_is_accepted_with_202(hub: Hub):
    answer = hub.post("/events", {"event_type": "order.placed", "payload": {"order": 7}})
    assert answer.status == 202
    assert answer.json["event_type"] == "order.placed"
    assert (answer.json["tags"], answer.json["status"]) == (None, "PENDING")
    assert hub.event(answer.json["id"])["payload"] == {"order": 7}


def test_a_broadcast_that_nobody_wants_is_completed_once_it_was_handed_out(hub: Hub, tag: str):
    event_id = hub.broadcast(f"{tag}.placed")
    hub.until(f"/events/{event_id}", lambda event: event["status"] == "COMPLETED")
    assert hub.actions(event_id) == ["PUBLISHED", "COMPLETED"]


def test_an_event_with_tags_and_a_type_is_both_and_201(hub: Hub, tag: str):
    answer = hub.post("/events", {"event_type": "order.placed", "tags": tag})
    assert answer.status == 201
    assert hub.take(tag)["id"] == answer.json["id"]


@pytest.mark.parametrize("tags", [None, "", " , ,", [], ["", " "]])
def test_an_event_with_neither_tags_nor_a_type_is_422(hub: Hub, tags: object):
    assert hub.post("/events", {"title": "nobody's"}).status == 422
    answer = hub.post("/events", {"title": "nobody's", "tags": tags})
    assert answer.status == 422


def test_a_broadcast_is_never_taken_by_a_worker(hub: Hub, tag: str):
    hub.post("/events", {"event_type": tag})
    assert hub.take(tag) is None
