"""On a hub that is empty every page says what to do first; and what it says works."""

import shlex
import subprocess

import pytest
from playwright.sync_api import expect

from tests.cli.support import EVENTHUB
from tests.dashboard.browsing import Visit
from tests.http.server import HubServer, environment

expect.set_options(timeout=30_000)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/", "No queue has anything yet"),
        ("/events", "No events yet"),
        ("/subscribers", "No subscribers yet"),
        ("/dead", "No dead letters"),
        ("/workers", "Nobody has worked yet"),
    ],
)
def test_an_empty_page_says_what_to_do_first(place: str, words: str, visit: Visit):
    expect(visit.go(place).locator(".empty-title")).to_have_text(words)


def test_all_is_well_on_an_empty_hub(visit: Visit):
    expect(visit.go("/").get_by_text("All is well")).to_be_visible()


@pytest.mark.parametrize("place", ["/subscribers", "/events"])
def test_the_command_that_is_shown_fills_the_page(place: str, server: HubServer, visit: Visit):
    page = visit.go(place)
    program, *arguments = shlex.split(page.locator(".empty code").inner_text())
    assert program == "eventhub"
    told = environment() | {"EVENTHUB_DB": server.db, "EVENTHUB_SECRET_FILE": str(server.secret_file)}
    done = subprocess.run(
        [EVENTHUB, *arguments], env=told, cwd=server.directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page.reload()
    visit.settle()
    expect(page.locator("main tbody tr")).to_have_count(1)
