"""Browsers sign in with a key and get a cookie that stands for it: where it counts, how it ends, who may use it."""

import asyncio
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.http.sessions import LIFE, Sessions
from eventhub.keys import KeyRing
from eventhub.store import open_store
from tests.http.api import Answer
from tests.http.conftest import Hub, MakeHub
from tests.http.server import HubServer

JOB = {"title": "x", "tags": "session"}
COOKIE = re.compile(
    r"eventhub_session=([A-Za-z0-9]{12}\.\d{10}\.[0-9a-f]{16}\.[0-9a-f]{64}); "
    r"HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"
)


class Browser:
    """A hub as a browser with a session meets it."""

    def __init__(self, hub: Hub, key: str) -> None:
        answer = hub.post("/session", {"key": key})
        assert answer.status == 204, answer
        found = COOKIE.fullmatch(answer.headers["set-cookie"])
        assert found, answer.headers
        self.hub = hub
        self.value = found[1]

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        cookie = {"Cookie": f"theme=dark; eventhub_session={self.value}; other=1"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.hub(method, path, body, headers=cookie | named)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.hub.port}"


def new_key(hub: Hub, *scopes: str, name: str = "anna") -> Any:
    answer = hub.post("/api-keys", {"name": name, "scopes": list(scopes)})
    assert answer.status == 201, answer
    return answer.json


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that has a key, and asks for it. The tests of this file share it."""
    directory = tmp_path_factory.mktemp("keyed")
    with HubServer(str(directory / "hub.db"), directory) as server:
        hub = Hub(server)
        yield hub.with_key(new_key(hub, "admin")["key"])


def signed_in(admin: Hub) -> Browser:
    assert admin.key is not None
    return Browser(admin.with_key(None), admin.key)


def test_a_cookie_opens_what_its_key_opens(admin: Hub) -> None:
    browser = signed_in(admin)
    answer = browser("GET", "/session")
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json
    assert (found["name"], found["scopes"], found["keyless"]) == ("anna", ["admin"], False)
    assert (found["engine"], found["lake"]) == ("sqlite", False)
    reader = new_key(admin, "read", name="reader")
    other = Browser(browser.hub, reader["key"])
    assert other("GET", "/overview").status == 200
    assert other("POST", "/events", JOB, Origin=other.origin).status == 403


def test_what_needs_a_key_is_stored_by_no_browser(admin: Hub) -> None:
    browser = signed_in(admin)
    for path in ("/session", "/overview", "/events", "/events/999", "/subscribers", "/api-keys", "/history"):
        assert browser("GET", path).headers["cache-control"] == "no-store", path
    assert browser.hub.get("/events").headers["cache-control"] == "no-store", "a refusal is nobody else's either"
    assert browser("GET", "/").headers["cache-control"] == "no-cache"
    assert "cache-control" not in browser("GET", "/health").headers


def test_on_a_hub_without_keys_nobody_signs_in(sqlite_hub: Hub) -> None:
    found = sqlite_hub.get("/session").json
    assert (found["name"], found["keyless"]) == ("owner", True)
    stale = {"Cookie": "eventhub_session=AAAAAAAAAAAA.9999999999." + "0" * 64}
    assert sqlite_hub("GET", "/session", headers=stale).json["keyless"]


@pytest.mark.parametrize("key", ["eh_nobody", "x", "eh_AAAAAAAAAAAA_" + "a" * 32])
def test_a_key_that_is_not_good_gets_no_cookie(admin: Hub, key: str) -> None:
    answer = admin.with_key(None).post("/session", {"key": key})
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_cookie_that_was_changed_opens_nothing(admin: Hub) -> None:
    browser = signed_in(admin)
    key_id, ends, session, mark = browser.value.split(".")
    other = new_key(admin, "admin")["id"]
    forged = [f"{key_id}.{int(ends) + 1}.{session}.{mark}", f"{other}.{ends}.{session}.{mark}"]
    forged += [
        f"{key_id}.{ends}.{session}.{mark[:-1]}",
        f"{key_id}.{ends}.{'0' * 16}.{mark}",
        f"{key_id}.{ends}.{mark}",
    ]
    for browser.value in [
        *forged,
        f"{key_id}.{ends}.{session}.",
        "...",
        "é.1.2.3",
        "x" * 5000,
        f"{key_id}.{ends}..{mark}",
    ]:
        assert browser("GET", "/overview").status == 401


def test_a_cookie_counts_only_where_no_key_is_sent(admin: Hub) -> None:
    browser = signed_in(admin)
    assert browser("GET", "/overview", Authorization="Bearer eh_wrong").status == 401
    assert browser("GET", "/overview", X_Api_Key="eh_wrong").status == 401
    reader = new_key(admin, "read")["key"]
    assert browser("POST", "/events", JOB, X_Api_Key=reader, Origin=browser.origin).status == 403


def test_with_a_cookie_only_the_hubs_own_page_may_change_anything(admin: Hub) -> None:
    browser = signed_in(admin)
    assert browser("POST", "/events", JOB).status == 403
    assert browser("POST", "/events", JOB, Origin="http://evil.example").status == 403
    assert browser("POST", "/events", JOB, Sec_Fetch_Site="cross-site").status == 403
    assert browser("POST", "/events", JOB, Sec_Fetch_Site="same-site").status == 403
    assert browser("POST", "/events", JOB, Origin=browser.origin).status == 201
    assert browser("POST", "/events", JOB, Sec_Fetch_Site="same-origin").status == 201
    assert browser("GET", "/events/subscribe?tags=session&worker_id=w").status == 403
    assert browser("GET", "/live?seconds=0.01").status == 200
    assert browser("GET", "/live?seconds=0.01", Sec_Fetch_Site="cross-site").status == 403
    assert admin.post("/events", JOB).status == 201, "programs with a key have no origin"


def test_a_session_ends_with_its_key(admin: Hub) -> None:
    key = new_key(admin, "read")
    browser = Browser(admin.with_key(None), key["key"])
    assert browser("GET", "/overview").status == 200
    assert admin.delete(f"/api-keys/{key['id']}").status == 204
    assert browser("GET", "/overview").status == 401


def test_signing_out_takes_the_cookie_away(admin: Hub) -> None:
    browser = signed_in(admin)
    answer = browser("DELETE", "/session", Origin=browser.origin)
    assert answer.status == 204
    assert answer.headers["set-cookie"].startswith("eventhub_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
    assert browser("DELETE", "/session", Origin="http://evil.example").status == 403


def test_a_copy_of_the_cookie_is_dead_after_signing_out(admin: Hub) -> None:
    browser, other = signed_in(admin), signed_in(admin)
    stolen = browser.value
    assert browser("DELETE", "/session", Origin=browser.origin).status == 204
    browser.value = stolen
    assert browser("GET", "/overview").status == 401
    assert browser("DELETE", "/session", Origin=browser.origin).status == 204
    assert other("GET", "/overview").status == 200, "another session of the same key goes on"
    actions = [entry["action"] for entry in admin.get("/audit", action="session").json["entries"]]
    assert actions[0] == "session.end"


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
def test_signing_out_holds_in_every_process_and_after_a_restart(make_hub: MakeHub, engine: str) -> None:
    hub = make_hub(engine, "--workers", "2")
    admin = hub.with_key(new_key(hub, "admin")["key"])
    browser = signed_in(admin)
    for _ in range(10):  # both have seen it, and remember that it was good
        assert browser("GET", "/session").status == 200
    assert browser("DELETE", "/session", Origin=browser.origin).status == 204
    end = time.monotonic() + 30
    refused = 0
    while refused < 20:  # in a row, each by a connection of its own
        refused = refused + 1 if browser("GET", "/session").status == 401 else 0
        assert time.monotonic() < end
    hub.server.stop()
    hub.server.start()
    assert browser("GET", "/session").status == 401


def test_behind_tls_the_cookie_is_secure(admin: Hub) -> None:
    answer = admin("POST", "/session", {"key": admin.key}, headers={"X-Forwarded-Proto": "https"})
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_every_process_takes_the_cookie_of_any(make_hub: MakeHub) -> None:
    hub = make_hub("sqlite", "--workers", "2")
    browser = Browser(hub, new_key(hub, "admin")["key"])
    assert [browser("GET", "/session").status for _ in range(30)] == [200] * 30  # each by a connection of its own


async def test_a_session_ends_after_twelve_hours() -> None:
    clock = ManualClock()
    async with open_store(":memory:") as store:
        ring = KeyRing(store, b"s" * 32, clock=clock)
        key, _ = await ring.create("anna", ["read"])
        sessions = Sessions(ring, b"s" * 32, store, clock=clock)
        value = sessions.begin(key.id, secure=False).partition(b";")[0]
        assert (await sessions.principal({b"cookie": value})) is not None
        assert (await Sessions(ring, b"t" * 32, store, clock=clock).principal({b"cookie": value})) is None
        clock.advance(LIFE)
        assert (await sessions.principal({b"cookie": value})) is None
        await ring.close()


async def test_ended_sessions_are_forgotten_when_they_would_have_ended_by_themselves(store_url: str) -> None:
    clock = ManualClock()
    async with open_store(store_url) as store:
        ring = KeyRing(store, b"s" * 32, clock=clock)
        key, _ = await ring.create("anna", ["read"])
        sessions = Sessions(ring, b"s" * 32, store, clock=clock)
        for _ in range(3):
            value = sessions.begin(key.id, secure=False).partition(b";")[0]
            assert await sessions.sign_out({b"cookie": value}) is not None
            assert await sessions.sign_out({b"cookie": value}) is None
            assert len(await store.ended_sessions()) == 1
            clock.advance(LIFE + timedelta(hours=2))
        await ring.close()


async def test_who_asks_while_ended_sessions_are_read_waits_for_them(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(store_url) as store:
        ring = KeyRing(store, b"s" * 32)
        key, _ = await ring.create("anna", ["read"])
        before = Sessions(ring, b"s" * 32, store)
        cookie = {b"cookie": before.begin(key.id, secure=False).partition(b";")[0]}
        assert await before.sign_out(cookie) is not None
        reads, ended_sessions = 0, store.ended_sessions

        async def counted() -> set[str]:
            nonlocal reads
            reads += 1
            return await ended_sessions()

        monkeypatch.setattr(store, "ended_sessions", counted)
        restarted = Sessions(ring, b"s" * 32, store)
        assert await asyncio.gather(*(restarted.principal(cookie) for _ in range(5))) == [None] * 5
        assert reads == 1
        await ring.close()


async def test_a_read_that_began_before_a_sign_out_does_not_undo_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    async with open_store(store_url) as store:
        ring = KeyRing(store, b"s" * 32)
        key, _ = await ring.create("anna", ["read"])
        sessions = Sessions(ring, b"s" * 32, store, monotonic=lambda: now)
        cookie, other = ({b"cookie": sessions.begin(key.id, secure=False).partition(b";")[0]} for _ in range(2))
        assert await sessions.principal(cookie) is not None
        ending, end, has_read, go_on = (asyncio.Event() for _ in range(4))
        end_session, ended_sessions = store.end_session, store.ended_sessions

        async def end_late(*args: Any, **named: Any) -> None:
            ending.set()
            await end.wait()
            await end_session(*args, **named)

        async def answer_late() -> set[str]:
            found = await ended_sessions()
            has_read.set()
            await go_on.wait()
            return found

        monkeypatch.setattr(store, "end_session", end_late)
        monkeypatch.setattr(store, "ended_sessions", answer_late)
        signing_out = asyncio.create_task(sessions.sign_out(cookie))
        await ending.wait()
        now += 3
        asking = asyncio.create_task(sessions.principal(other))
        await has_read.wait()
        end.set()
        await signing_out
        monkeypatch.setattr(store, "ended_sessions", ended_sessions)
        assert await sessions.principal(cookie) is None
        go_on.set()
        assert await asking is not None
        assert await sessions.principal(cookie) is None
        await ring.close()
