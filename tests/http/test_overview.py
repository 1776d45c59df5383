"""The overview over HTTP: numbers as they are, on either engine, and words about what needs attention."""

from typing import Any

import pytest

from tests.http.conftest import Hub, MakeHub


def part(found: Any, name: str) -> tuple[str, str]:
    (one,) = [each for each in found["health"] if each["part"] == name]
    return one["state"], one["words"]


def is_empty(found: Any) -> None:
    assert (found["attention"], found["in_flight"], found["dead_letters"]) == ([], 0, 0)
    assert found["oldest_waiting_seconds"] is None
    assert found["depth"] == {"pending": 0, "processing": 0, "retry": 0, "queues": [], "more": False}
    assert found["messages"] == {"ready": 0, "waiting": 0, "behind": 0, "leased": 0, "more": False}
    assert {len(found["chart"][kind]) for kind in ("received", "completed", "failed")} == {360}
    assert part(found, "database")[0] == part(found, "fan-out")[0] == part(found, "janitor")[0] == "ok"
    assert part(found, "dispatcher")[0] == part(found, "pipeline")[0] == "off"


def counts_work(hub: Hub) -> None:
    for number in range(6):
        hub.publish(title=f"job {number}", tags="a")
    done, failed, dead = hub.taken("a"), hub.taken("a"), hub.taken("a")
    hub.taken("a", worker="fourth")
    hub.complete(done["id"])
    hub.fail(failed["id"], error_message="no")
    hub.fail(dead["id"], error_message="never", retry=False)
    found = hub.until("/overview", lambda seen: seen["depth"]["retry"] == 1 and seen["dead_letters"] == 1)
    assert (found["depth"]["pending"], found["in_flight"]) == (3, 1)
    (queue,) = found["depth"]["queues"]
    assert (queue["queue"], queue["pending"], queue["processing"], queue["retry"]) == ("work", 3, 1, 1)
    assert found["oldest_waiting_seconds"] > 0
    rates = {kind: rate * 65 for kind, rate in found["rates"].items()}  # of 60 to 70 seconds
    assert rates == pytest.approx({"received": 6, "completed": 1, "failed": 2}, rel=0.2)
    (concern,) = found["attention"]
    assert (concern["level"], concern["link"]) == ("bad", "#/dead")
    assert concern["words"] == "1 dead letter in the last hour. See why, then retry or purge."


def counts_messages(hub: Hub) -> None:
    hub.subscribe("nobody", "https://example.com/hook", event_type="order.*")
    hub.broadcast("order.placed")
    found = hub.until("/overview", lambda seen: seen["messages"]["ready"] == 1)
    assert "1 message waits and no dispatcher runs" in found["attention"][0]["words"]
    assert part(found, "dispatcher") == ("bad", "no process runs it; 1 wait")


def counts_the_backlog(hub: Hub) -> None:
    for _ in range(3):
        hub.publish(title="more", tags="a")
    full = "8 of 10 deliveries that may be open are. Beyond, publishing is refused."
    hub.until("/overview", lambda seen: any(each["words"] == full for each in seen["attention"]))


def test_it_tells_how_the_hub_stands(make_hub: MakeHub, engine: str) -> None:
    """One hub, from its first moment on: it has no dispatcher."""
    hub = make_hub(engine, "--max-backlog", "10")
    is_empty(hub.get("/overview").json)
    counts_work(hub)
    counts_messages(hub)
    counts_the_backlog(hub)


def test_only_those_who_may_read_see_it(make_hub: MakeHub) -> None:
    hub = make_hub()
    publisher = hub.post("/api-keys", {"name": "p", "scopes": ["publish"]}).json["key"]
    for path in ("/overview", "/live?seconds=0.01", "/history", "/dlq/groups"):
        assert hub.with_key(publisher).get(path).status == 403
    assert hub.with_key(publisher).get("/session").json["scopes"] == ["publish"]
