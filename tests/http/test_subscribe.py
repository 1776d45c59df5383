"""Seed 003, section 2: /events/subscribe gives work to exactly one worker."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub
from tests.http.test_create_job import EXAMPLE


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_the_example_of_the_seed_is_answered_with_its_body_and_the_claim(hub: Hub, tag: str):
    published = hub.publish(**EXAMPLE | {"tags": f"{tag},priority-high,notification"})
    before = datetime.now(UTC)
    answer = hub.get("/events/subscribe", tags=f"email-{tag},{tag}", worker_id="worker-02:8742")
    assert answer.status == 200
    body = answer.json
    assert list(body)[:8] == ["id", "title", "tags", "status", "payload", "retry_count", "max_retries", "created_at"]
    lease = moment(body.pop("lease_expires_at")) - before
    assert timedelta(seconds=299) < lease < timedelta(seconds=310)
    assert body == {
        "id": published["id"],
        "title": "Send Email Notification",
        "tags": f"{tag},priority-high,notification",
        "status": "PROCESSING",
        "payload": EXAMPLE["payload"],
        "retry_count": 0,
        "max_retries": 3,
        "created_at": published["created_at"],
        "attempt": 1,
        "fence": 1,
        "description": "Send welcome email to new user",
    }


def test_what_was_taken_is_processing_and_the_worker_is_in_the_log(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    hub.take(tag, "worker-02:8742")
    event = hub.event(event_id, logs=True)
    assert event["status"] == "PROCESSING"
    picked = event["logs"][-1]
    assert (picked["action"], picked["worker_id"], picked["event_id"]) == ("PICKED", "worker-02:8742", event_id)


def test_no_matching_event_is_204_and_empty(hub: Hub, tag: str):
    answer = hub.get("/events/subscribe", tags=tag, worker_id="worker-02:8742")
    assert (answer.status, answer.raw) == (204, b"")


@pytest.mark.parametrize("there_is_work", [True, False])
def test_no_answer_may_be_kept_by_a_cache(hub: Hub, tag: str, there_is_work: bool):  # noqa: FBT001
    if there_is_work:
        hub.publish(tags=tag)
        hub.publish(tags=tag)
    got = hub.get("/events/subscribe", tags=tag, worker_id="w")
    posted = hub.post("/events/subscribe", {"tags": tag, "worker_id": "w"})
    listed = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=5)
    assert [a.headers["cache-control"] for a in (got, posted, listed)] == ["no-store"] * 3


def test_an_event_is_taken_once(hub: Hub, tag: str):
    hub.publish(tags=tag)
    assert hub.take(tag, "w1") is not None
    assert hub.take(tag, "w2") is None
    assert hub.take(tag, "w1") is None


def test_the_oldest_is_taken_first(hub: Hub, tag: str):
    ids = [hub.publish(tags=tag)["id"] for _ in range(4)]
    assert [hub.take(tag)["id"] for _ in ids] == ids


def test_any_of_the_tags_is_enough(hub: Hub, tag: str):
    first = hub.publish(tags=f"{tag}-a,{tag}-b")["id"]
    second = hub.publish(tags=f"{tag}-b,{tag}-c")["id"]
    assert hub.take(f"{tag}-x,{tag}-a")["id"] == first
    assert hub.take(f" {tag}-c , {tag}-a")["id"] == second


@pytest.mark.parametrize("asked", ["{0}", "{0}-mai", "{0}-mailer", "mail", "{0}_mail", "{0}-MAIL", "%", "{0}.mail"])
def test_only_whole_tags_match(hub: Hub, tag: str, asked: str):
    event_id = hub.publish(tags=f"{tag}-mail")["id"]
    answer = hub.get("/events/subscribe", tags=asked.format(tag), worker_id="w")
    assert answer.status == (400 if asked == "%" else 204)
    assert hub.take(f"{tag}-mail")["id"] == event_id


def test_twenty_racing_workers_share_twenty_events_without_overlap(hub: Hub, tag: str):
    ids = {hub.publish(tags=tag)["id"] for _ in range(20)}
    with ThreadPoolExecutor(20) as pool:
        taken = list(pool.map(lambda n: hub.take(tag, f"w{n}")["id"], range(20)))
    assert sorted(taken) == sorted(ids)
    assert hub.take(tag) is None


def test_posting_the_request_is_the_same_as_getting_it(hub: Hub, tag: str):
    first, second = (hub.publish(tags=tag)["id"] for _ in range(2))
    answer = hub.post("/events/subscribe", {"tags": tag, "worker_id": "w"})
    assert (answer.status, answer.json["id"]) == (200, first)
    answer = hub.post("/events/subscribe", {"tags": [tag, "other"], "worker_id": "w", "limit": 3})
    assert [event["id"] for event in answer.json["events"]] == [second]
    assert hub.post("/events/subscribe", {"tags": tag, "worker_id": "w"}).status == 204


def test_with_a_limit_the_answer_is_a_list_of_at_most_so_many(hub: Hub, tag: str):
    ids = [hub.publish(tags=tag, payload=n)["id"] for n in range(5)]

    def take(limit: int) -> list:
        answer = hub.get("/events/subscribe", tags=tag, worker_id="w", limit=limit)
        assert answer.status == 200
        assert list(answer.json) == ["events"]
        return list(answer.json["events"])

    assert [event["id"] for event in take(1)] == ids[:1]
    several = take(1000)
    assert [event["id"] for event in several] == ids[1:]
    assert {event["status"] for event in several} == {"PROCESSING"}
    assert all(event["fence"] == 1 and event["lease_expires_at"] for event in several)
    assert take(5) == []


def test_a_lease_is_as_long_as_was_asked(hub: Hub, tag: str):
    for seconds in (1, 42.5, 86_400):
        hub.publish(tags=tag)
        before = datetime.now(UTC)
        lease = moment(hub.take(tag, lease_seconds=seconds)["lease_expires_at"]) - before
        assert timedelta(seconds=seconds - 1) < lease < timedelta(seconds=seconds + 10)


def test_a_lease_that_ended_lets_another_worker_take_the_event_with_a_higher_fence(hub: Hub, tag: str):
    event_id = hub.publish(tags=tag)["id"]
    first = hub.take(tag, "w1", lease_seconds=1)
    second = hub.taken(tag, "w2")
    assert second["id"] == event_id
    assert second["fence"] > first["fence"]
    assert (second["attempt"], second["retry_count"]) == (2, 1)  # an abandoned attempt has failed
    assert hub.actions(event_id) == ["PUBLISHED", "PICKED", "ABANDONED", "PICKED"]


def test_an_abandoned_event_goes_before_younger_ones(hub: Hub, tag: str):
    older = hub.publish(tags=f"{tag},{tag}-first")["id"]
    hub.take(f"{tag}-first", "w1", lease_seconds=1)
    assert hub.taken(f"{tag}-first", "w2", lease_seconds=1)["id"] == older
    younger = hub.publish(tags=f"{tag},{tag}-second")["id"]
    assert hub.taken(f"{tag}-first", "w3", lease_seconds=1)["id"] == older
    assert hub.event(younger)["status"] == "PENDING"


def test_a_worker_that_waits_gets_what_is_published_meanwhile(hub: Hub, tag: str):
    with Wire(hub.port) as wire:
        wire.send(head("GET", f"/events/subscribe?tags={tag}&worker_id=w&wait=60", hub.port))
        published = hub.publish(tags=tag)
        answer = wire.answer()
    assert (answer.status, answer.json["id"]) == (200, published["id"])


def test_a_wait_ends_with_204_when_its_time_is_up(hub: Hub, tag: str):
    before = datetime.now(UTC)
    assert hub.take(tag, wait=0.3) is None
    assert timedelta(seconds=0.29) < datetime.now(UTC) - before < timedelta(seconds=10)
    answer = hub.get("/events/subscribe", tags=tag, worker_id="w", wait=0.05, limit=7)
    assert (answer.status, answer.json) == (200, {"events": []})


def test_waiting_workers_get_one_event_each(hub: Hub, tag: str):
    with ThreadPoolExecutor(10) as pool:
        waiting = [pool.submit(hub.taken, tag, f"w{n}") for n in range(10)]
        ids = {hub.publish(tags=tag)["id"] for _ in range(10)}
        assert {each.result()["id"] for each in waiting} == ids


def test_a_worker_that_hangs_up_while_it_waits_takes_nothing_along(hub: Hub, tag: str):
    for _ in range(5):
        with Wire(hub.port) as wire:
            wire.send(head("GET", f"/events/subscribe?tags={tag}&worker_id=gone&wait=60", hub.port))
    published = hub.publish(tags=tag)
    assert hub.taken(tag, "here")["id"] == published["id"]


@pytest.mark.parametrize(
    "query",
    [
        "worker_id=w",
        "tags=a",
        "tags=&worker_id=w",
        "tags=,&worker_id=w",
        "tags=a&worker_id=",
        f"tags=a&worker_id={'w' * 201}",
        "tags=a&worker_id=w%00",
        "tags=a b&worker_id=w",
        "tags=a&worker_id=w&wait=61",
        "tags=a&worker_id=w&wait=-1",
        "tags=a&worker_id=w&wait=nan",
        "tags=a&worker_id=w&wait=soon",
        "tags=a&worker_id=w&limit=0",
        "tags=a&worker_id=w&limit=1001",
        "tags=a&worker_id=w&limit=1.5",
        "tags=a&worker_id=w&lease_seconds=0",
        "tags=a&worker_id=w&lease_seconds=86401",
        "tags=a&worker_id=w&tags=b",
        "tags=a&worker_id=w&wiat=5",
        "tags=%ff&worker_id=w",
    ],
)
def test_a_bad_query_is_400(sqlite_hub: Hub, query: str):
    answer = sqlite_hub.get(f"/events/subscribe?{query.replace(' ', '%20')}")
    assert answer.status == 400


@pytest.mark.parametrize("worker", ["w", "w" * 200, "worker-02:8742", "kö ln/1?&#", "’"])
def test_any_text_up_to_200_characters_is_a_worker(hub: Hub, tag: str, worker: str):
    event_id = hub.publish(tags=tag)["id"]
    assert hub.take(tag, worker)["id"] == event_id
    assert hub.complete(event_id, worker).json["worker_id"] == worker
