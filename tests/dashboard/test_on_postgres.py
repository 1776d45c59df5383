"""What operators do most, on PostgreSQL: a dead letter is retried, and work is taken away from a silent worker."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Route, expect

from tests.dashboard.browsing import Visit
from tests.dashboard.story import dead_work
from tests.http.api import Api
from tests.http.server import HubServer

expect.set_options(timeout=30_000)


def without_waiting(route: Route) -> None:
    """The page asks for those who were silent for 30 seconds, which a test has not."""
    address = urlsplit(route.request.url)
    route.continue_(url=address._replace(query=f"{address.query}&silent_seconds=0").geturl())


def test_a_dead_letter_is_retried_and_a_silent_worker_loses_its_work(
    browser: Browser, postgres_url: str, tmp_path: Path
):
    with HubServer(postgres_url, tmp_path) as server:
        api, visit = Api(server.port), Visit(browser, server.url)
        number = dead_work(api, "mail")
        page = visit.go("/dead")
        expect(page.get_by_role("link", name="Dead letters", exact=False).first).to_have_text("Dead letters 1")
        page.get_by_role("button", name=f"Retry letter {number}").click()
        expect(page.locator("#notice")).to_contain_text("fresh start")
        assert api.taken("mail", "silent:1")["id"] == number

        page.route(re.compile("/orphans"), without_waiting)
        visit.go("/workers")
        row = page.get_by_role("table", name="Silent claims").get_by_role("row").filter(has_text=f"#{number}")
        expect(row).to_contain_text("silent:1")
        row.get_by_role("button", name="Reset").click()
        page.get_by_role("dialog").get_by_role("button", name="Reset").click()
        expect(page.locator("#notice")).to_contain_text(f"Event {number} is ready again.")
        expect(page.get_by_text("None: everything that was taken is being worked on.")).to_be_visible()
        assert api.taken("mail", "other:2")["id"] == number
        assert api.complete(number, "silent:1").status == 409
        visit.close()
