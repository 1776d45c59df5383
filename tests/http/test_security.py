"""security.md, the lines about who may do what: keys, scopes, hosts, origins, the first start."""

import statistics
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.http.api import Api
from tests.http.conftest import Hub, MakeHub, Shared
from tests.http.server import HubServer

UNKNOWN_KEY = f"eh_{'a' * 12}_{'b' * 32}"


@pytest.fixture(scope="session")
def keyed(shared: Shared) -> tuple[HubServer, str]:
    """A server with a key, and the key of its administrator."""
    server = shared.get("sqlite", "--max-retries", "5")
    key = Api(server.port).post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"]
    return server, key


@pytest.fixture
def locked(keyed: tuple[HubServer, str]) -> Hub:
    """The same server without a key."""
    return Hub(keyed[0])


@pytest.fixture
def admin(keyed: tuple[HubServer, str]) -> Hub:
    return Hub(keyed[0], key=keyed[1])


def make_key(admin: Hub, *scopes: str, **more: Any) -> str:
    made = admin.post("/api-keys", {"name": "test", "scopes": list(scopes), **more})
    assert made.status == 201, made
    return str(made.json["key"])


def ended_keys(admin: Hub) -> dict[str, str | None]:
    """Every kind of key that opens nothing."""
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    expired = make_key(admin, "read", expires_at=soon.isoformat())
    revoked = make_key(admin, "read")
    assert admin.delete(f"/api-keys/{revoked.split('_')[1]}").status == 204
    wrong = make_key(admin, "read")
    while admin.with_key(expired).get("/events").status == 200:
        assert datetime.now(UTC) < soon + timedelta(seconds=10)
    return {
        "missing": None,
        "unknown": UNKNOWN_KEY,
        "malformed": "nonsense",
        "expired": expired,
        "revoked": revoked,
        "wrong secret": wrong[:-1] + ("a" if wrong[-1] != "a" else "b"),
        "long": "x" * 5000,
    }


# ------------------------------------------------------------------- 401, 403


def test_all_that_is_no_good_key_gets_the_same_401(admin: Hub):
    answers = {name: admin.with_key(key).get("/events") for name, key in ended_keys(admin).items()}
    assert {answer.status for answer in answers.values()} == {401}
    assert len({answer.raw for answer in answers.values()}) == 1, answers
    headers = {tuple(sorted(answer.headers.items())) for answer in answers.values()}
    assert len(headers) == 1
    assert answers["missing"].headers["www-authenticate"].startswith("Bearer")


@pytest.mark.alone
def test_a_refusal_costs_the_same_whatever_the_reason(admin: Hub):
    """Comparable work, no early return: the medians lie close together however noisy the machine is."""
    keys = {name: key for name, key in ended_keys(admin).items() if name != "long"}
    spent: dict[str, list[float]] = {name: [] for name in keys}
    for _ in range(60):
        for name, key in keys.items():  # in turn, so that noise hits all of them
            hub = admin.with_key(key)
            started = time.perf_counter()
            hub.get("/events")
            spent[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    assert max(medians.values()) < 3 * min(medians.values()), medians


def test_bad_keys_are_throttled_by_address_and_good_ones_are_not(make_hub: MakeHub):
    hub = make_hub()
    good = hub.with_key(hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"])
    bad = hub.with_key(UNKNOWN_KEY)
    refused = bad.get("/events")
    asked = 1
    while refused.status == 401:
        assert asked < 2000
        refused = bad.get("/events") if asked % 2 else hub.post("/session", {"key": UNKNOWN_KEY})
        asked += 1
    assert asked > 50
    assert (refused.status, refused.kind) == (429, "too-many-refusals")
    assert int(refused.headers["retry-after"]) >= 1
    for _ in range(5):
        assert good.get("/events").status == 200
    assert hub.post("/session", {"key": good.key}).status == 204
    fresh = good.post("/api-keys", {"name": "new", "scopes": ["read"]}).json["key"]
    assert hub.with_key(fresh).get("/events").status == 200, "a good key that was never seen here is let in, too"
    assert hub.get("/events").status == 401, "whoever shows no key is only told that one is needed"


def test_a_key_may_stand_in_either_header(locked: Hub, admin: Hub):
    key = make_key(admin, "read")
    assert locked("GET", "/events", headers={"X-API-Key": key}).status == 200
    assert locked("GET", "/events", headers={"Authorization": f"bearer {key}"}).status == 200
    assert locked("GET", "/events", headers={"Authorization": key}).status == 401
    assert locked("GET", "/events", headers={"Authorization": "Basic dTpw"}).status == 401


READ = ["/events", "/events/1", "/orphans", "/workers", "/stats", "/metrics", "/openapi.json", "/docs", "/docs.css"]
WORK = [
    ("GET", "/events/subscribe?tags=a&worker_id=w", None),
    ("POST", "/events/subscribe", {"tags": "a", "worker_id": "w"}),
    *(
        ("POST", f"/events/1/{what}", {"worker_id": "w"})
        for what in ("complete", "fail", "start", "heartbeat", "release")
    ),
    *(("POST", f"/events/{what}", {"reports": [{"event_id": 1, "worker_id": "w"}]}) for what in ("complete", "fail")),
]
NEEDS: dict[str, list[tuple[str, str, Any]]] = {
    "publish": [("POST", "/events", {"event_type": "a"}), ("POST", "/events/batch", {"events": [{"event_type": "a"}]})],
    "work": WORK,
    "read": [("GET", path, None) for path in READ],
    "admin": [
        ("POST", "/events/1/reset", None),
        ("GET", "/api-keys", None),
        ("POST", "/api-keys", {"name": "n", "scopes": ["read"]}),
        ("DELETE", "/api-keys/aaaaaaaaaaaa", None),
        ("POST", "/api-keys/aaaaaaaaaaaa/rotate", None),
    ],
}


@pytest.mark.parametrize("scope", list(NEEDS))
def test_a_key_opens_what_its_scope_says_and_403_is_the_rest(locked: Hub, admin: Hub, scope: str):
    hub = locked.with_key(make_key(admin, scope))
    for needed, requests in NEEDS.items():
        for method, path, body in requests:
            status = hub(method, path, body).status
            assert locked(method, path, body).status == 401, path
            if scope in (needed, "admin"):
                assert status not in (401, 403), f"{method} {path}"
            else:
                assert status == 403, f"{method} {path}"


def test_every_route_of_the_document_is_behind_a_key_but_health_and_signing_in(locked: Hub, admin: Hub):
    document = admin.get("/openapi.json").json
    for path, methods in document["paths"].items():
        for method in methods:
            answer = locked(method.upper(), path.format(id=1, key_id="x", key="k"))
            exempt = path in ("/health", "/ready") or (path == "/session" and method in ("post", "delete"))
            assert (answer.status == 401) is not exempt, f"{method} {path}: {answer.status}"


@pytest.mark.parametrize(
    "path", ["/health/", "/health/x", "//health", "/health%2f..%2fevents", "/HEALTH", "/ready/../events"]
)
def test_what_needs_no_key_is_matched_exactly(locked: Hub, path: str):
    assert locked.get(path).status in (401, 404)


def test_publishing_may_be_narrowed_to_types(locked: Hub, admin: Hub, tag: str):
    hub = locked.with_key(make_key(admin, "publish:order.*", f"publish:#{tag}"))
    assert hub.post("/events", {"event_type": "order.placed", "tags": tag}).status == 201
    other = {"event_type": "order.placed", "tags": f"{tag}-other"}
    for event in ({"event_type": "user.created"}, {"event_type": "order.placed.late"}, other):
        assert hub.post("/events", event).status == 403
    mixed = {"events": [{"event_type": "order.paid", "tags": tag}, {"event_type": "user.created", "tags": tag}]}
    assert hub.post("/events/batch", mixed).status == 403
    assert admin.get("/events", tags=tag).json["total"] == 1


def test_working_may_be_narrowed_to_tags(locked: Hub, admin: Hub, tag: str):
    hub = locked.with_key(make_key(admin, f"work:{tag}"))
    mine = admin.publish(tags=tag)["id"]
    foreign = admin.publish(tags=f"{tag}-other")["id"]
    assert hub.take(tag, "w")["id"] == mine
    for tags in (f"{tag}-other", f"{tag},{tag}-other"):
        assert hub.get("/events/subscribe", tags=tags, worker_id="w").status == 403
        assert hub.post("/events/subscribe", {"tags": tags, "worker_id": "w"}).status == 403
    assert hub.complete(mine, "w").status == 200
    admin.take(f"{tag}-other", "w")
    for what in ("complete", "fail", "heartbeat", "start", "release"):
        assert hub.post(f"/events/{foreign}/{what}", {"worker_id": "w"}).status == 403, what
    for what in ("complete", "fail"):
        reports = [{"event_id": foreign, "worker_id": "w"}]
        answer = hub.post(f"/events/{what}", {"reports": reports})
        assert answer.status == 403 or answer.json["results"][0]["status"] == 403, what
    assert admin.event(foreign)["status"] == "PROCESSING"


# ---------------------------------------------------------------------- keys


def test_a_key_is_shown_once_and_its_secret_is_nowhere(locked: Hub, admin: Hub):
    made = admin.post("/api-keys", {"name": "shop", "scopes": ["publish:order.*"]})
    assert made.headers["cache-control"] == "no-store"
    key = made.json["key"]
    prefix, key_id, secret = key.split("_")
    assert (prefix, key_id) == ("eh", made.json["id"])
    assert len(secret) >= 27  # letters and digits: 160 bits at least
    listed = admin.get("/api-keys")
    assert secret not in listed.raw.decode()
    (shown,) = [one for one in listed.json["keys"] if one["id"] == key_id]
    assert (shown["name"], shown["scopes"], shown["revoked_at"]) == ("shop", ["publish:order.*"], None)
    for file in locked.server.directory.iterdir():
        assert secret.encode() not in file.read_bytes(), file
    for file in Path(locked.server.db).parent.iterdir():
        assert secret.encode() not in file.read_bytes(), file


def test_a_key_ends_within_ten_years_by_utc(make_hub: MakeHub, engine: str):
    hub = make_hub(engine)
    wanted = {"name": "root", "scopes": ["admin"]}
    for end in ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+12:00"):
        assert hub.post("/api-keys", {**wanted, "expires_at": end}).kind == "invalid-key", end
    soon = datetime.now(timezone(timedelta(hours=-12))).replace(microsecond=0) + timedelta(hours=1)
    made = hub.post("/api-keys", {**wanted, "expires_at": soon.isoformat()})
    assert made.json["expires_at"] == soon.astimezone(UTC).isoformat().replace("+00:00", "Z")
    assert hub.with_key(made.json["key"]).get("/api-keys").json["keys"][0]["expires_at"] == made.json["expires_at"]


def test_both_keys_live_during_a_rotation(admin: Hub):
    old = make_key(admin, "read")
    rotated = admin.post(f"/api-keys/{old.split('_')[1]}/rotate?overlap_seconds=3600")
    assert rotated.status == 201
    new = rotated.json["key"]
    assert [admin.with_key(key).get("/events").status for key in (old, new)] == [200, 200]
    newest = admin.post(f"/api-keys/{rotated.json['id']}/rotate?overlap_seconds=0").json["key"]
    assert [admin.with_key(key).get("/events").status for key in (new, newest)] == [401, 200]
    again = admin.post(f"/api-keys/{rotated.json['id']}/rotate")
    assert again.status == 422
    assert admin.post("/api-keys/aaaaaaaaaaaa/rotate").status == 404
    assert admin.delete("/api-keys/aaaaaaaaaaaa").status == 404


@pytest.mark.parametrize("key_id", ["%00", "a", "%ED%A0%80", "aaaaaaaaaaa%00", "aaaaaaaaaaaa%0A"])
def test_what_no_key_is_called_is_not_found(make_hub: MakeHub, engine: str, key_id: str):
    hub = make_hub(engine)
    assert hub.delete(f"/api-keys/{key_id}").status == 404
    assert hub.post(f"/api-keys/{key_id}/rotate").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["metrics:a"]},
        {"name": "", "scopes": ["read"]},
        {"name": "x", "scopes": ["work:a b"]},
        {"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"},
    ],
)
def test_a_key_that_means_nothing_is_422(admin: Hub, body: dict[str, Any]):
    assert admin.post("/api-keys", body).status == 422


# --------------------------------------------------------------- first start


def test_on_loopback_no_key_is_needed_until_the_first_exists(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite")
    assert hub.publish(tags=tag)
    assert hub.with_key(UNKNOWN_KEY).get("/events").status == 401
    key = hub.post("/api-keys", {"name": "first", "scopes": ["admin"]}).json["key"]
    assert hub.get("/events").status == 401
    assert hub.with_key(key).get("/events").status == 200
    assert hub.with_key(key).delete(f"/api-keys/{key.split('_')[1]}").status == 204
    assert hub.get("/events").status == 401


def test_a_key_made_by_the_command_works_and_its_revocation_too(make_hub: MakeHub):
    import json

    hub = make_hub("sqlite")
    done = hub.server.command("keys", "create", "ops", "--scopes", "read", "--json", secret=True)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    keyed = hub.with_key(made["key"])
    assert keyed.get("/events").status == 200
    assert hub.server.command("keys", "revoke", made["id"]).returncode == 0
    end = time.monotonic() + 10
    while keyed.get("/events").status == 200:
        assert time.monotonic() < end, "a revoked key still works"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_it_refuses_to_be_reachable_from_elsewhere_without_a_key(tmp_path: Path, host: str):
    server = HubServer(str(tmp_path / "hub.db"), tmp_path)
    done = server.command("serve", "--host", host, "--port", "0", secret=True)
    assert done.returncode != 0
    assert "API key" in done.stderr
    assert "listens" not in done.stdout


def test_with_a_key_it_may_be_reachable_and_then_loopback_needs_one_too(tmp_path: Path):
    import json

    server = HubServer(str(tmp_path / "hub.db"), tmp_path, "--host", "0.0.0.0", "--allowed-hosts", "hub.example")
    done = server.command("keys", "create", "ops", "--scopes", "read", "--json", secret=True)
    key = json.loads(done.stdout)["key"]
    with server:
        assert Api(server.port).get("/events").status == 401
        assert Api(server.port, key=key).get("/events").status == 200
        assert Api(server.port, key=key)("GET", "/events", headers={"Host": "hub.example"}).status == 200


def test_files_are_for_their_owner_alone(make_hub: MakeHub):
    hub = make_hub("sqlite")
    assert hub.server.secret_file.stat().st_mode & 0o077 == 0
    for file in Path(hub.server.db).parent.glob("hub.db*"):
        assert file.stat().st_mode & 0o077 == 0, file


# ------------------------------------------------------------- host, origin


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_an_unknown_host_is_421(sqlite_hub: Hub, host: str):
    answer = sqlite_hub("GET", "/events", headers={"Host": host})
    assert (answer.status, answer.kind) == (421, "unknown-host")
    assert sqlite_hub("GET", "/health", headers={"Host": host}).status == 421
    assert sqlite_hub("GET", "/nowhere", headers={"Host": host}).status in (404, 421)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080"])
def test_the_names_of_this_machine_are_known(sqlite_hub: Hub, host: str):
    assert sqlite_hub("GET", "/events", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "http://[", ""]
)
def test_a_write_from_another_origin_is_403(sqlite_hub: Hub, tag: str, origin: str):
    answer = sqlite_hub.post("/events", {"tags": tag}, headers={"Origin": origin})
    assert (answer.status, answer.kind) == (403, "foreign-origin")
    assert sqlite_hub.delete("/api-keys/x", headers={"Origin": origin}).status == 403
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


def test_a_write_from_its_own_origin_is_allowed(sqlite_hub: Hub, tag: str):
    own = sqlite_hub.server.url
    assert sqlite_hub.post("/events", {"tags": tag}, headers={"Origin": own}).status == 201


def test_taking_work_by_get_from_another_origin_is_403(sqlite_hub: Hub, tag: str):
    """It changes something, although it is a GET."""
    event_id = sqlite_hub.publish(tags=tag)["id"]
    path = f"/events/subscribe?tags={tag}&worker_id=w"
    assert sqlite_hub("GET", path, headers={"Origin": "https://evil.example"}).status == 403
    assert sqlite_hub("GET", path, headers={"Sec-Fetch-Site": "cross-site"}).status == 403  # an image, say
    assert sqlite_hub("GET", "/events", headers={"Sec-Fetch-Site": "cross-site"}).status == 200
    assert sqlite_hub.event(event_id)["status"] == "PENDING"
