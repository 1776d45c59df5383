"""A hub with keys: a browser signs in with one, and out again; a key that is gone takes its sessions with it."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.dashboard.browsing import Visit, findings
from tests.dashboard.story import dead_work
from tests.http.api import Api
from tests.http.server import HubServer

expect.set_options(timeout=30_000)

ACTIONS = "Pause|Send test|Edit|Rotate|Delete|New subscriber|Retry|Purge|Replay|Reset"
NAME = "<img src=x onerror=window.__xss=1>"


@pytest.fixture(scope="module")
def key(server: HubServer) -> Any:
    """The first key of the hub."""
    made = server.command("keys", "create", NAME, "--scopes", "admin", "--json", secret=True)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def sign_in(visit: Visit, key: str) -> None:
    visit.page.get_by_label("API key").fill(key)
    visit.page.get_by_role("button", name="Sign in").click()


def test_a_browser_signs_in_and_out(key: dict[str, str], visit: Visit):
    visit.expected.append("401")
    page = visit.page
    page.goto("/#/workers")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(page.get_by_role("navigation")).to_be_hidden()
    sign_in(visit, "eh_wrong_key")
    expect(page.get_by_role("alert")).to_contain_text("not known")
    sign_in(visit, key["key"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    expect(page.locator("#who")).to_contain_text(NAME)
    expect(page.locator("#live-state")).to_have_text("Live")

    (cookie,) = visit.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert key["key"] not in cookie["value"]
    assert (
        page.evaluate("() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)").count(
            "eh_"
        )
        == 0
    )
    page.reload()
    visit.settle()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert not visit.context.cookies()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_one_signs_in(scheme: str, key: dict[str, str], visiting):
    visit = visiting(color_scheme=scheme, bypass_csp=True)
    visit.expected.append("401")
    visit.page.goto("/")
    expect(visit.page.get_by_label("API key")).to_be_focused()
    assert findings(visit) == []


def test_what_a_key_may_not_do_is_not_offered(key: dict[str, str], server: HubServer, visit: Visit):
    visit.expected += ["401", "403"]
    api = Api(server.port, key=key["key"])
    reader = api.post("/api-keys", {"name": "reader", "scopes": ["read"]}).json
    subscriber = api.subscribe("watched", "https://example.com/hook")
    page = visit.page
    page.goto(f"/#/subscribers/{subscriber['id']}")
    sign_in(visit, reader["key"])
    expect(page.locator("#who")).to_contain_text("reader, may only look")
    number = dead_work(api, "reading")
    names = re.compile(ACTIONS)
    for place in (f"/subscribers/{subscriber['id']}", "/subscribers", "/dead", f"/dead/{number}", f"/events/{number}"):
        visit.go(place)
        expect(page.get_by_role("button", name=names).or_(page.get_by_role("link", name=names))).to_have_count(0)
    visit.go(f"/subscribers/{subscriber['id']}/edit")
    expect(page.get_by_text("may look, but change nothing")).to_be_visible()
    expect(page.get_by_role("textbox")).to_have_count(0)


def test_a_key_that_may_not_look_is_told_so(key: dict[str, str], server: HubServer, visit: Visit):
    visit.expected.append("401")
    publisher = Api(server.port, key=key["key"]).post("/api-keys", {"name": "shop", "scopes": ["publish"]}).json
    visit.page.goto("/")
    sign_in(visit, publisher["key"])
    expect(visit.page.get_by_role("alert")).to_contain_text("lacks the scope read")
    expect(visit.page.locator("#cut")).to_be_hidden()
    sign_in(visit, key["key"])
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_refusal_that_is_not_about_the_key_is_told_as_it_is(key: dict[str, str], server: HubServer, visit: Visit):
    visit.expected += ["401", "403"]
    page = visit.page
    page.goto("/")
    expect(page.get_by_label("API key")).to_be_focused()

    def through_a_proxy(route: Route) -> None:
        route.fulfill(response=route.fetch(headers=route.request.headers | {"origin": "http://proxy.example"}))

    page.route("**/session", through_a_proxy)
    sign_in(visit, key["key"])
    expect(page.get_by_role("alert")).to_contain_text("another origin")


def test_a_key_that_is_revoked_ends_its_session(key: dict[str, str], server: HubServer, visit: Visit):
    visit.expected += ["401", "net::ERR"]
    api = Api(server.port, key=key["key"])
    guest = api.post("/api-keys", {"name": "guest", "scopes": ["read"]}).json
    page = visit.page
    page.goto("/#/workers")
    sign_in(visit, guest["key"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    assert api.delete(f"/api-keys/{guest['id']}").status in (200, 204)
    while Api(server.port, key=guest["key"]).get("/workers").status == 200:
        pass  # keys are remembered for two seconds
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
