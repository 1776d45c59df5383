"""Ordering keys that do not go on: seen and mended over HTTP, whatever they are called."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.http.conftest import Hub
from tests.http.receiver import Receiver

ODD = [
    "plain",
    "with/slash",
    "a/b/c/",
    "/",
    "//",
    ".",
    "..",
    "../..",
    "%2F",
    "100%",
    "a b",
    "a+b",
    "?x=1&y=2",
    "#hash",
    "ü€😀",
    "'; DROP TABLE deliveries; --",
    "{key}",
    "retry",
    "x" * 255,
    "line\nbreak\ttab",
    '"quoted" \\ back',
]


def blocked(hub: Hub, receiver: Receiver, tag: str, key: str, **more: Any) -> Any:
    """A subscriber with a key whose first message has failed, and another behind it."""
    receiver.statuses[f"/{tag}"] = 500
    options = {"ordering_key": "ordering_key", "retry_backoff_seconds": [3600], **more}
    made = hub.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", **options)
    for number in range(2):
        hub.broadcast(f"{tag}.x", payload=number, ordering_key=key)
    hub.until(f"/subscribers/{made['id']}/keys", lambda found: found["keys"] and found["keys"][0]["waiting"] == 1)
    return made


def path(made: Any, key: str, verb: str) -> str:
    return f"/subscribers/{made['id']}/keys/{quote(key, safe='')}/{verb}"


def delivered(receiver: Receiver, tag: str) -> list[int]:
    return [got.json["data"] for got in receiver.at(f"/{tag}")]


def test_a_blocked_key_says_what_holds_it(webhooks: Hub, receiver: Receiver, tag: str):
    made = blocked(webhooks, receiver, tag, "customer/7")
    page = webhooks.get(f"/subscribers/{made['id']}/keys").json
    (key,) = page["keys"]
    assert (key["key"], key["status"], key["parked"], key["waiting"]) == ("customer/7", "PENDING", False, 1)
    assert (key["attempt_count"], key["retry_count"]) == (1, 1)
    assert key["next_retry_at"]
    assert "500" in key["error"]
    assert page["next_after"] is None
    assert webhooks.get(f"/messages/{key['message_id']}").json["event_id"] == key["event_id"]
    stats = webhooks.get(f"/subscribers/{made['id']}/stats").json
    assert (stats["blocked_keys"], stats["parked_keys"], stats["behind"]) == (1, 0, 1)
    assert (stats["waiting_for_retry"], stats["failed_last_hour"], stats["delivered_last_hour"]) == (1, 1, 0)
    messages = webhooks.get("/messages", subscriber=made["id"]).json["messages"]
    assert [message["blocked"] for message in messages] == [True, False]


@pytest.mark.parametrize("key", ODD)
def test_a_key_of_any_name_is_retried(webhooks: Hub, receiver: Receiver, tag: str, key: str):
    made = blocked(webhooks, receiver, tag, key)
    receiver.statuses[f"/{tag}"] = 200
    answer = webhooks.post(path(made, key, "retry"))
    assert (answer.status, answer.raw) == (204, b"")
    receiver.wait(f"/{tag}", 3)
    assert delivered(receiver, tag) == [0, 0, 1]
    webhooks.until(f"/subscribers/{made['id']}/keys", lambda found: not found["keys"])
    again = webhooks.post(path(made, key, "retry"))
    assert (again.status, again.kind) == (409, "not-blocked")


@pytest.mark.parametrize("key", ["with/slash", "ü 100%"])
def test_a_key_goes_on_past_a_message_that_is_skipped(webhooks: Hub, receiver: Receiver, tag: str, key: str):
    made = blocked(webhooks, receiver, tag, key)
    receiver.statuses[f"/{tag}"] = 200
    assert webhooks.post(path(made, key, "skip")).status == 204
    receiver.wait(f"/{tag}", 2)
    assert delivered(receiver, tag) == [0, 1]
    (dead,) = webhooks.get("/dlq", subscriber=made["id"]).json["dead_letters"]
    assert (dead["reason"], dead["ordering_key"]) == ("skipped", key)


@pytest.mark.parametrize("verb", ["unpark", "retry", "skip"])
def test_a_parked_key_goes_on_when_it_is_told_to(webhooks: Hub, receiver: Receiver, tag: str, verb: str):
    made = blocked(webhooks, receiver, tag, "a/b", on_dead="park", retry_backoff_seconds=[])
    webhooks.until(f"/subscribers/{made['id']}/keys", lambda found: found["keys"][0]["parked"])
    assert webhooks.get(f"/subscribers/{made['id']}/stats").json["parked_keys"] == 1
    receiver.statuses[f"/{tag}"] = 200
    assert webhooks.post(path(made, "a/b", verb)).status == 204
    receiver.wait(f"/{tag}", 3 if verb == "retry" else 2)
    assert delivered(receiver, tag) == ([0, 0, 1] if verb == "retry" else [0, 1])
    assert webhooks.get("/dlq", subscriber=made["id"]).json["total"] == (0 if verb == "retry" else 1)


def test_a_key_that_only_waits_is_not_parked(webhooks: Hub, receiver: Receiver, tag: str):
    made = blocked(webhooks, receiver, tag, "k")
    answer = webhooks.post(path(made, "k", "unpark"))
    assert (answer.status, answer.kind) == (409, "not-blocked")


@pytest.mark.parametrize("verb", ["retry", "skip", "unpark"])
@pytest.mark.parametrize("key", ["unknown", "x" * 256, "nul%00nul", "", "%20"])
def test_a_key_that_nothing_waits_under_is_409(webhooks: Hub, tag: str, key: str, verb: str):
    made = webhooks.subscribe(tag, "http://127.0.0.1:1025", event_type=f"{tag}.x")
    answer = webhooks.post(f"/subscribers/{made['id']}/keys/{key}/{verb}")
    assert (answer.status, answer.kind) == (409, "not-blocked")


@pytest.mark.parametrize("key", ["%FF", "a/b", "%C3"])
def test_a_path_that_is_none_is_404(webhooks: Hub, tag: str, key: str):
    made = webhooks.subscribe(tag, "http://127.0.0.1:1025", event_type=f"{tag}.x")
    assert webhooks.post(f"/subscribers/{made['id']}/keys/{key}/retry").status == 404


def test_blocked_keys_come_in_pages(webhooks: Hub, receiver: Receiver, tag: str):
    keys = sorted(f"k/{n}" for n in range(5))
    receiver.statuses[f"/{tag}"] = 500
    made = webhooks.subscribe(
        tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", ordering_key="payload.key", retry_backoff_seconds=[3600]
    )
    for key in keys:
        webhooks.broadcast(f"{tag}.x", payload={"key": key})
    where = f"/subscribers/{made['id']}/keys"
    webhooks.until(where, lambda found: len(found["keys"]) == 5)
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = webhooks.get(where, **query).json
        seen += [each["key"] for each in page["keys"]]
        if page["next_after"] is None:
            break
        query["after"] = page["next_after"]
    assert seen == keys


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=%00", "before=a", f"after={'x' * 256}"])
def test_a_bad_query_is_400(webhooks: Hub, tag: str, query: str):
    made = webhooks.subscribe(tag, "http://127.0.0.1:1025", event_type=f"{tag}.x")
    assert webhooks.get(f"/subscribers/{made['id']}/keys?{query}").status == 400
