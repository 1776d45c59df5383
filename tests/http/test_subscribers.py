"""Subscribers over HTTP: made, shown, changed, paused and removed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.http.conftest import Hub, MakeHub
from tests.http.receiver import Receiver

URL = "http://127.0.0.1:1025/in"


@pytest.fixture
def made(webhooks: Hub, tag: str) -> Any:
    """A subscriber of the test's own, that gets nothing by accident."""
    return webhooks.subscribe(tag, URL, event_type=f"{tag}.*", headers={"X-Team": "a", "Authorization": "Bearer me"})


def path(subscriber: Any, *more: str) -> str:
    return "/".join([f"/subscribers/{subscriber['id']}", *more])


# --------------------------------------------------------------------- making


def test_a_new_subscriber_is_answered_with_its_secret_and_all_its_defaults(webhooks: Hub, tag: str):
    answer = webhooks.post("/subscribers", {"name": tag, "url": URL, "event_type": f"{tag}.placed"})
    assert answer.status == 201
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["etag"] == '"1"'
    body = answer.json
    assert body.pop("secret").startswith("whsec_")
    assert isinstance(body.pop("id"), int)
    assert body.pop("created_at") == body.pop("updated_at")
    assert body == {
        "name": tag,
        "url": URL,
        "event_type": f"{tag}.placed",
        "filter": None,
        "headers": {},
        "format": "standard",
        "ordering_key": None,
        "on_dead": "skip",
        "retry_backoff_seconds": [5, 30, 300],
        "retry_on": None,
        "connect_timeout_seconds": 5,
        "timeout_seconds": 10,
        "rate_per_second": None,
        "max_in_flight": 32,
        "guarantee": "at_least_once",
        "description": None,
        "status": "active",
        "reason": None,
        "circuit": "closed",
        "circuit_until": None,
        "version": 1,
        "secrets": 1,
    }


def test_everything_that_can_be_said_reads_back_as_it_was_said(webhooks: Hub, tag: str):
    said = {
        "name": f"Łódź {tag}",
        "url": "http://127.0.0.1:1025/a?b=c",
        "event_type": f"{tag}.*",
        "filter": {"payload.total": {"gte": 100}, "payload.country": "SE"},
        "headers": {"X-Team": "shipping"},
        "format": "ce-structured",
        "ordering_key": "payload.customer.id",
        "on_dead": "park",
        "retry_backoff_seconds": [1, 2.5],
        "retry_on": ["5xx", "409", "timeout"],
        "connect_timeout_seconds": 1.5,
        "timeout_seconds": 20,
        "rate_per_second": 12.5,
        "max_in_flight": 3,
        "guarantee": "at_most_once",
        "description": "For the warehouse",
    }
    made = webhooks.post("/subscribers", said).json
    assert said.items() <= made.items()
    secret = made.pop("secret")
    assert webhooks.get(path(made)).json == made
    assert secret not in webhooks.get("/subscribers").raw.decode()


def test_secrets_are_shown_once_and_secret_headers_never(webhooks: Hub, made: Any, tag: str):
    assert made["headers"] == {"X-Team": "a", "Authorization": "***"}
    shown = [
        webhooks.get(path(made)),
        webhooks.get("/subscribers"),
        webhooks.patch(path(made), {"description": "changed"}),
        webhooks.post(path(made, "pause")),
    ]
    for answer in shown:
        text = answer.raw.decode()
        assert made["secret"] not in text
        assert "Bearer me" not in text
        assert "***" in text


def test_a_secret_may_be_brought_along(webhooks: Hub, tag: str, receiver: Receiver):
    own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", secret=own)
    assert made["secret"] == own
    webhooks.broadcast(f"{tag}.x")
    (got,) = receiver.wait(f"/{tag}")
    assert got.signed_by(own)


def test_a_name_belongs_to_one(webhooks: Hub, made: Any, tag: str):
    again = webhooks.post("/subscribers", {"name": tag, "url": URL})
    assert (again.status, again.kind) == (409, "subscriber-exists")
    other = webhooks.subscribe(f"{tag}-other", URL, event_type=f"{tag}.*")
    renamed = webhooks.patch(path(other), {"name": tag})
    assert (renamed.status, renamed.kind) == (409, "subscriber-exists")
    assert webhooks.get(path(other)).json["name"] == f"{tag}-other"


def test_racing_for_a_name_one_wins(webhooks: Hub, tag: str):
    body = {"name": tag, "url": URL, "event_type": f"{tag}.*"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: webhooks.post("/subscribers", body), range(8)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7


def test_all_are_listed_by_name(webhooks: Hub, tag: str):
    for letter in "bca":
        webhooks.subscribe(f"{tag}-{letter}", URL, event_type=f"{tag}.*")
    listed = [each["name"] for each in webhooks.get("/subscribers").json["subscribers"]]
    assert [name for name in listed if name.startswith(tag)] == [f"{tag}-a", f"{tag}-b", f"{tag}-c"]


# ------------------------------------------------------------------- changing


def test_a_change_changes_what_it_names_and_nothing_else(webhooks: Hub, made: Any):
    before = webhooks.get(path(made)).json
    answer = webhooks.patch(path(made), {"rate_per_second": 5, "filter": {"payload.a": 1}})
    assert answer.status == 200
    after = answer.json
    assert answer.headers["etag"] == f'"{after["version"]}"'
    assert after["version"] > before["version"]
    assert after["updated_at"] >= before["updated_at"]
    changed = {name for name in after if after[name] != before[name]} - {"version", "updated_at"}
    assert changed == {"rate_per_second", "filter"}
    assert webhooks.patch(path(made), {"rate_per_second": None, "filter": None}).json["filter"] is None


def test_what_is_shown_can_be_sent_back_and_secret_headers_stay(webhooks: Hub, tag: str, receiver: Receiver):
    url = f"{receiver.url}/{tag}"
    made = webhooks.subscribe(tag, url, event_type=f"{tag}.x", headers={"Authorization": "Bearer me"})
    shown = webhooks.get(path(made)).json
    answer = webhooks.patch(path(made), {"headers": {**shown["headers"], "X-Team": "a"}})
    assert (answer.status, answer.json["headers"]) == (200, {"Authorization": "***", "X-Team": "a"})
    webhooks.until_noticed(receiver)
    webhooks.broadcast(f"{tag}.x")
    (got,) = receiver.wait(f"/{tag}")
    assert (got.headers["authorization"], got.headers["x-team"]) == ("Bearer me", "a")


def test_a_change_of_an_old_version_is_412_and_changes_nothing(webhooks: Hub, made: Any):
    current = webhooks.patch(path(made), {"description": "first"}, headers={"If-Match": f'"{made["version"]}"'})
    assert current.status == 200
    late = webhooks.patch(path(made), {"description": "second"}, headers={"If-Match": f'"{made["version"]}"'})
    assert (late.status, late.kind) == (412, "subscriber-changed")
    assert webhooks.get(path(made)).json["description"] == "first"
    version = current.json["version"]
    for match in ("*", '"{}"', 'W/"x", "{}"', "{}"):
        answer = webhooks.patch(path(made), {"url": f"{URL}/{version}"}, headers={"If-Match": match.format(version)})
        assert (answer.status, answer.json["version"] > version) == (200, True)
        version = answer.json["version"]
    assert webhooks.patch(path(made), {"url": URL}, headers={"If-Match": "nonsense"}).status == 412


def test_of_racing_changes_of_one_version_one_wins(webhooks: Hub, made: Any):
    headers = {"If-Match": f'"{made["version"]}"'}

    def change(number: int) -> int:
        return webhooks.patch(path(made), {"description": f"change {number}"}, headers=headers).status

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(change, range(8)))
    assert statuses == [200] + [412] * 7


def test_racing_changes_without_a_version_are_all_there_in_the_end_or_refused(webhooks: Hub, made: Any):
    fields = ["description", "ordering_key", "rate_per_second", "max_in_flight"]
    values = ["changed", "payload.a", 7.0, 9]
    with ThreadPoolExecutor(4) as pool:
        each = list(pool.map(lambda pair: webhooks.patch(path(made), dict([pair])), zip(fields, values, strict=True)))
    assert {answer.status for answer in each} <= {200, 409}
    found = webhooks.get(path(made)).json
    for name, value, answer in zip(fields, values, each, strict=True):
        assert (found[name] == value) == (answer.status == 200)


# ------------------------------------------------------------- pause and go on


def test_a_paused_subscriber_gets_nothing_and_loses_nothing(webhooks: Hub, tag: str, receiver: Receiver):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    paused = webhooks.post(path(made, "pause"), reason="they move house")
    assert (paused.status, paused.json["status"], paused.json["reason"]) == (200, "paused", "they move house")
    webhooks.until_noticed(receiver)
    webhooks.broadcast(f"{tag}.x", payload=1)
    webhooks.until("/messages", lambda found: found["messages"], subscriber=made["id"])
    webhooks.until_noticed(receiver)
    assert receiver.at(f"/{tag}") == []
    resumed = webhooks.post(path(made, "resume"))
    assert (resumed.json["status"], resumed.json["reason"]) == ("active", None)
    (got,) = receiver.wait(f"/{tag}")
    assert got.json["data"] == 1


def test_a_disabled_subscriber_is_enabled_again(webhooks: Hub, made: Any):
    disabled = webhooks.post(path(made, "disable"), reason="no longer ours")
    assert (disabled.status, disabled.json["status"], disabled.json["reason"]) == (200, "disabled", "no longer ours")
    assert webhooks.post(path(made, "enable")).json["status"] == "active"


# ------------------------------------------------------------ rotating, testing


def test_after_a_rotation_both_secrets_sign_and_the_new_one_is_shown_once(webhooks: Hub, tag: str, receiver: Receiver):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    answer = webhooks.post(path(made, "rotate-secret"), {"overlap_seconds": 600})
    assert (answer.status, list(answer.json)) == (200, ["secret"])
    assert answer.headers["cache-control"] == "no-store"
    new = answer.json["secret"]
    assert new != made["secret"]
    assert webhooks.get(path(made)).json["secrets"] == 2
    webhooks.until_noticed(receiver)
    webhooks.broadcast(f"{tag}.x")
    (got,) = receiver.wait(f"/{tag}")
    assert got.signed_by(new)
    assert got.signed_by(made["secret"])


def test_without_an_overlap_the_old_secret_is_gone_at_once(webhooks: Hub, tag: str, receiver: Receiver):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    new = webhooks.post(path(made, "rotate-secret"), {"overlap_seconds": 0}).json["secret"]
    assert webhooks.get(path(made)).json["secrets"] == 1
    webhooks.until_noticed(receiver)
    webhooks.broadcast(f"{tag}.x")
    (got,) = receiver.wait(f"/{tag}")
    assert got.signed_by(new)
    assert not got.signed_by(made["secret"])


def test_a_test_event_reaches_its_subscriber_whatever_it_asked_for(webhooks: Hub, tag: str, receiver: Receiver):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x", filter={"payload.a": 1})
    bystander = webhooks.subscribe(f"{tag}-all", f"{receiver.url}/{tag}-all", event_type="hub.test")
    answer = webhooks.post(path(made, "test"))
    assert (answer.status, list(answer.json)) == (202, ["event_id"])
    (got,) = receiver.wait(f"/{tag}")
    assert got.json["type"] == "hub.test"
    done = webhooks.until(f"/events/{answer.json['event_id']}", lambda event: event["status"] == "COMPLETED")
    assert done["event_type"] == "hub.test"
    assert webhooks.get("/messages", subscriber=bystander["id"]).json["messages"] == []
    webhooks.delete(path(bystander))


# -------------------------------------------------------------------- removing


def test_a_removed_subscriber_is_gone_and_its_open_messages_are_cancelled(webhooks: Hub, tag: str, receiver: Receiver):
    made = webhooks.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    webhooks.post(path(made, "pause"))
    webhooks.until_noticed(receiver)
    event_id = webhooks.broadcast(f"{tag}.x")
    webhooks.until("/messages", lambda found: found["messages"], subscriber=made["id"])
    answer = webhooks.delete(path(made))
    assert (answer.status, answer.json) == (200, {"count": 1})
    assert webhooks.get(path(made)).status == 404
    assert webhooks.delete(path(made)).status == 404
    assert made["id"] not in [each["id"] for each in webhooks.get("/subscribers").json["subscribers"]]
    assert "CANCELLED" in webhooks.actions(event_id)
    assert webhooks.subscribe(tag, URL, event_type=f"{tag}.x")["id"] != made["id"]


NOT_THERE = ["9223372036854775807", "0", "-1", "x", "9" * 30, "1%2F2"]


@pytest.mark.parametrize("number", NOT_THERE)
@pytest.mark.parametrize(
    ("method", "tail", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"description": "x"}),
        ("DELETE", "", None),
        *[("POST", f"/{verb}", None) for verb in ("enable", "disable", "pause", "resume", "test", "rotate-secret")],
        ("GET", "/stats", None),
        ("GET", "/keys", None),
        *[("POST", f"/keys/k/{verb}", None) for verb in ("retry", "skip", "unpark")],
    ],
)
def test_a_subscriber_that_is_not_there_is_404(sqlite_hub: Hub, number: str, method: str, tail: str, body: object):
    answer = sqlite_hub(method, f"/subscribers/{number}{tail}", body)
    assert (answer.status, answer.kind) == (404, "subscriber-not-found")


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_other_methods_are_405(sqlite_hub: Hub, method: str):
    answer = sqlite_hub(method, "/subscribers/1", {})
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")


def test_who_may_read_sees_subscribers_and_who_may_administer_changes_them(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--allow-private", "127.0.0.0/8")
    made = hub.subscribe(tag, URL)
    admin = hub.with_key(hub.post("/api-keys", {"name": "admin", "scopes": ["admin"]}).json["key"])
    reads = admin.post("/api-keys", {"name": "reader", "scopes": ["read", "publish", "work"]}).json["key"]
    reader = hub.with_key(reads)
    seen = ["/subscribers", path(made), path(made, "stats"), path(made, "keys"), "/messages", "/dlq"]
    assert [reader.get(each).status for each in seen] == [200] * 6
    changes = [
        ("POST", "/subscribers"),
        ("PATCH", path(made)),
        ("DELETE", path(made)),
        *[("POST", path(made, verb)) for verb in ("enable", "disable", "pause", "resume", "test", "rotate-secret")],
        *[("POST", path(made, "keys", "k", verb)) for verb in ("retry", "skip", "unpark")],
        *[("POST", f"/messages/1/{verb}") for verb in ("retry", "cancel", "dead-letter")],
        ("POST", "/dlq/1/retry"),
        ("POST", "/dlq/retry"),
        ("DELETE", "/dlq?older_than_days=1"),
    ]
    for method, where in changes:
        assert reader(method, where).status == 403, where
    writer = hub.with_key(admin.post("/api-keys", {"name": "writer", "scopes": ["publish"]}).json["key"])
    assert [writer.get(each).status for each in seen] == [403] * 6
    assert hub.get("/subscribers").status == 401
    assert admin.get(path(made)).json["status"] == "active"


def test_under_another_secret_file_subscribers_can_be_seen_and_removed_but_not_changed(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--allow-private", "127.0.0.0/8")
    made = hub.subscribe(tag, URL)
    hub.server.stop()
    hub.server.secret_file.unlink()
    hub.server.start()
    assert hub.get(path(made)).json["secrets"] == 0
    answer = hub.patch(path(made), {"description": "x"})
    assert (answer.status, answer.kind) == (409, "wrong-secret")
    assert hub.post(path(made, "rotate-secret")).status == 409
    assert hub.delete(path(made)).status == 200
