"""How many tags: refused on every way in before anything is stored."""

import json

import pytest

from tests.http.conftest import Hub

LONGEST = [f"{n:03d}".ljust(128, "x") for n in range(300)]


def total(hub: Hub) -> int:
    return int(hub.get("/events", limit=1).json["total"])


@pytest.mark.parametrize("form", [list, ",".join])
def test_sixty_four_of_the_longest_tags_are_work_that_is_found_by_each(hub: Hub, form):
    tags = LONGEST[:64]
    number = hub.publish(tags=form(tags))["id"]
    answer = hub.post("/events/subscribe", {"tags": LONGEST[63 : 63 + 256], "worker_id": "w"})
    assert answer.json["id"] == number
    assert hub.post(f"/events/{number}/complete", {"worker_id": "w"}).status == 200


@pytest.mark.parametrize(
    "tags", [LONGEST[:65], ["a"] * 65, ",".join("a" * 1) + "," * 64, "x" * 129, ",".join(["!"] * 220_000)]
)
def test_more_are_refused_alone_and_in_a_batch(hub: Hub, tags):
    before = total(hub)
    answer = hub.post("/events", {"tags": tags})
    assert (answer.status, answer.json["pointer"]) == (422, "/tags")
    answer = hub.post("/events/batch", {"events": [{"tags": "fine"}, {"tags": tags}]})
    assert (answer.status, answer.json["pointer"]) == (422, "/events/1/tags")
    assert total(hub) == before


def test_more_are_refused_as_a_cloud_event(hub: Hub):
    event = {"specversion": "1.0", "type": "a", "source": "s", "id": "1", "tags": ",".join(LONGEST[:65])}
    headers = {"Content-Type": "application/cloudevents+json"}
    answer = hub.post("/events", raw=json.dumps(event).encode(), headers=headers)
    assert answer.status == 422


def test_a_worker_may_ask_for_so_many_and_no_more(hub: Hub):
    assert hub.post("/events/subscribe", {"tags": LONGEST[:256], "worker_id": "w"}).status == 204
    assert hub.post("/events/subscribe", {"tags": LONGEST[:257], "worker_id": "w"}).status == 422
