"""The audit log over HTTP: what administrators did, with key and address; and refused sign-ins, bounded."""

import asyncio
from typing import Any

import pytest

from eventhub.http.refusals import Refusals
from eventhub.store import open_store
from eventhub.store.audit import AuditFilter
from tests.http.conftest import Hub, MakeHub

WRONG = "eh_abcdefghijkl_" + "x" * 32


@pytest.fixture
def admin(make_hub: MakeHub, engine: str) -> Hub:
    hub = make_hub(engine, "--allow-private", "127.0.0.0/8")
    made = hub.post("/api-keys", {"name": "root", "scopes": ["admin"]})
    assert made.status == 201, made
    return hub.with_key(made.json["key"])


def acts(hub: Hub, query: str = "") -> list[dict[str, Any]]:
    """Oldest first."""
    answer = hub.get(f"/audit?{query}")
    assert answer.status == 200, answer
    entries: list[dict[str, Any]] = answer.json["entries"]
    return entries[::-1]


def test_every_kind_of_act_is_told_with_who_did_it(admin: Hub) -> None:
    key = admin.post("/api-keys", {"name": "shop", "scopes": ["publish"]}).json
    admin.post(f"/api-keys/{key['id']}/rotate?overlap_seconds=0")
    admin.delete(f"/api-keys/{key['id']}")
    made = admin.post("/subscribers", {"name": "billing", "url": "http://127.0.0.1:9999/", "event_type": "a.b"})
    number = made.json["id"]
    admin("PATCH", f"/subscribers/{number}", {"name": "bills"})
    admin.post(f"/subscribers/{number}/rotate-secret", {})
    admin.post(f"/subscribers/{number}/pause")
    admin.post(f"/subscribers/{number}/test")
    job = admin.post("/events", {"tags": "audit", "payload": 1}).json["id"]
    admin.get("/events/subscribe?tags=audit&worker_id=w")
    admin.post(f"/events/{job}/reset?reason=why")
    admin.post(f"/events/{job}/replay", {})
    admin.delete(f"/subscribers/{number}")
    told = acts(admin)
    names = [act["action"] for act in told]
    assert names[0] == "key.create"
    assert (told[0]["actor"], told[0]["actor_kind"]) == ("owner", "owner")
    by_root = told[1:]
    assert {(act["actor"], act["actor_kind"], act["address"]) for act in by_root} == {("root", "key", "127.0.0.1")}
    for expected in (
        *("key.create", "key.rotate", "key.expire", "key.revoke", "subscriber.create", "subscriber.update"),
        *("secret.rotate", "subscriber.status", "subscriber.test", "event.reset", "event.replay", "subscriber.delete"),
    ):
        assert expected in [act["action"] for act in by_root], (expected, names)
    assert "whsec_" not in str(told)
    assert key["key"] not in str(told)


def test_the_log_is_for_administrators_and_has_pages_and_filters(admin: Hub) -> None:
    reader = admin.post("/api-keys", {"name": "looker", "scopes": ["read"]}).json["key"]
    assert admin.with_key(reader).get("/audit").status == 403
    assert admin.with_key(None).get("/audit").status == 401
    for number in range(5):
        admin.post("/api-keys", {"name": f"k{number}", "scopes": ["read"]})
    page = admin.get("/audit?action=key.create&limit=2").json
    assert [entry["details"]["name"] for entry in page["entries"]] == ["k4", "k3"]
    page = admin.get(f"/audit?action=key&limit=2&before={page['next_before']}").json
    assert [entry["details"]["name"] for entry in page["entries"]] == ["k2", "k1"]
    assert acts(admin, "actor=nobody-of-that-name") == []
    assert admin.get("/audit?since=yesterday").status == 400
    assert admin.get("/audit?target=%00").status == 400


def test_signing_in_is_told_and_a_refused_sign_in_once(admin: Hub) -> None:
    assert admin.post("/session", {"key": admin.key}).status == 204
    for _ in range(30):
        assert admin.with_key(None).post("/session", {"key": WRONG}).status in (401, 429)
    for _ in range(30):
        assert admin.with_key(WRONG).get("/events").status in (401, 429)
    (begun,) = acts(admin, "action=session.begin")
    assert (begun["actor"], begun["address"]) == ("root", "127.0.0.1")
    (refused,) = acts(admin, "action=session.refuse")
    assert (refused["actor_kind"], refused["address"]) == ("visitor", "127.0.0.1")
    assert WRONG not in str(acts(admin))


async def test_refusals_are_bounded_and_their_number_is_kept(store_url: str) -> None:
    async with open_store(store_url) as store:
        refusals = Refusals(store, window=3600, max_addresses=3)
        for _ in range(50):
            for address in range(100):
                refusals.note(f"192.0.2.{address}", how="session")
                await asyncio.sleep(0)
        await refusals.close()
        found = await store.audit(AuditFilter(limit=1000))
    assert len(found) == 3 + 3 + 1
    further = {entry.address: entry.details.get("further") for entry in found if "further" in entry.details}
    assert further == {f"192.0.2.{n}": 49 for n in range(3)} | {"other addresses": 97 * 50}
