"""The page of the dashboard and its files, with what keeps browsers from doing more than is meant."""

from importlib.resources import files

import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
KINDS = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES = sorted(file.name for file in files("eventhub.http.dashboard").joinpath("static").iterdir())


def test_the_page_may_run_nothing_but_the_hubs_own(sqlite_hub: Hub) -> None:
    answer = sqlite_hub.get("/")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_as_what_it_is(sqlite_hub: Hub, name: str) -> None:
    answer = sqlite_hub.get(f"/assets/{name}")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(KINDS[name.rpartition(".")[2]])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.raw == files("eventhub.http.dashboard").joinpath("static", name).read_bytes()


def test_what_a_browser_has_is_not_sent_again(sqlite_hub: Hub) -> None:
    tag = sqlite_hub.get("/").headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = sqlite_hub("GET", "/", headers={"If-None-Match": known})
        assert (again.status, again.raw, again.headers["etag"]) == (304, b"", tag)
    assert sqlite_hub("GET", "/", headers={"If-None-Match": '"other"'}).status == 200
    assert sqlite_hub("HEAD", "/").raw == b""


@pytest.mark.parametrize(
    "path", ["/assets/none.js", "/assets/..%2Fstatic", "/assets/%2e%2e", "/assets/", "/index.html"]
)
def test_there_is_nothing_else(sqlite_hub: Hub, path: str) -> None:
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", path, sqlite_hub.port))
        assert wire.answer().status == 404


def test_the_page_needs_no_key_and_its_data_does(make_hub: MakeHub) -> None:
    hub = make_hub()
    hub.post("/api-keys", {"name": "admin", "scopes": ["admin"]})
    assert [hub.get(path).status for path in ("/", f"/assets/{NAMES[0]}", "/favicon.ico")] == [200, 200, 204]
    assert [hub.get(path).status for path in ("/overview", "/session", "/live", "/history", "/dlq/groups")] == [401] * 5


def test_other_hosts_get_no_page(sqlite_hub: Hub) -> None:
    assert sqlite_hub("GET", "/", headers={"Host": "evil.example"}).status == 421
