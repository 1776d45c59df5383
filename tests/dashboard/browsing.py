"""Debian's Chromium, driven by Playwright; and what a page must never do while it is driven."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

PATIENCE_MS = 30_000
SERIOUS = ("serious", "critical")
WATCH = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`Content Security Policy: ${event.violatedDirective} forbids ${event.blockedURI}`);
});
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; scripts/setup brings it."""
    program = shutil.which("chromium")
    assert program is not None, "There is no chromium. Run scripts/setup test, or: apt-get install chromium."
    with sync_playwright() as playwright:
        arguments = ["--disable-gpu", "--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


class Visit:
    """One page in a context of its own, and everything that went wrong on it."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(
            **{"base_url": url, "locale": "en-GB", "timezone_id": "UTC", "viewport": {"width": 1280, "height": 800}}
            | options
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
        self.context.add_init_script(WATCH)
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.expected: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        self.page.on("dialog", lambda dialog: self.troubles.append(f"a dialog: {dialog.message}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text} ({message.location.get('url')})")

    def go(self, route: str) -> Page:
        """Open a page of the dashboard, and wait until it has nothing left to read."""
        if self.page.url.startswith(self.url):
            self.page.evaluate("route => { location.hash = route; }", f"#{route}")
        else:
            self.page.goto(f"/#{route}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Until a heading stands and nothing is being read any more."""
        self.page.wait_for_selector("main h1")
        self.page.wait_for_function("() => !document.querySelector('main [aria-busy]')")

    def close(self) -> None:
        """End it; whatever went wrong is told."""
        ran = self.page.evaluate("() => window.__xss")
        self.context.close()
        assert ran is None, f"A script of somebody else ran: {ran!r}"
        left = [trouble for trouble in self.troubles if not any(words in trouble for words in self.expected)]
        assert not left, "\n".join(left)


def findings(visit: Visit) -> list[str]:
    """What axe finds serious on the page as it is; its context must be one that bypasses the policy."""
    found = Axe().run(visit.page).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {one['help']} – {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in SERIOUS
    ]
