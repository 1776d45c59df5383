"""The site builds without a warning, its links lead somewhere, and reading it fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from tests.dashboard.browsing import chromium
from tests.docs.pages import DOCS, ROOT

FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src")}


class Page(HTMLParser):
    """What a page links to, what it fetches, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif (tag, name) in FETCHED:
                self.fetched.append(value)


def test_the_site_builds_and_is_whole(tmp_path: Path):
    """One test, because building takes longer than all that is looked at."""
    build(tmp_path)
    pages = {path: Page(path.read_text()) for path in tmp_path.rglob("*.html") if path.name != "404.html"}
    every_page_is_there(tmp_path)
    links_and_anchors_lead_somewhere(tmp_path, pages)
    reading_fetches_nothing_from_elsewhere(tmp_path, pages)
    the_search_works_in_pages_that_are_opened_as_files(tmp_path)


def build(directory: Path) -> None:
    """As `make docs` does."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def every_page_is_there(site: Path) -> None:
    missing = [page for page in DOCS.rglob("*.md") if not (site / page.relative_to(DOCS)).with_suffix(".html").exists()]
    assert missing == []


def links_and_anchors_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("#__"):
                continue
            place, anchor = urldefrag(link)
            target = (path.parent / unquote(place)).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert sum(len(page.links) for page in pages.values()) > 1000


def reading_fetches_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    fetched = {address for page in pages.values() for address in page.fetched if re.match(r"(https?:)?//", address)}
    assert fetched == set()
    styles = [path for path in site.rglob("*.css") if re.search(r"url\(['\"]?(https?:)?//", path.read_text())]
    assert styles == []


def the_search_works_in_pages_that_are_opened_as_files(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "tutorial" / "bus.html").as_uri())
        page.focus("input.md-search__input")
        page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
        page.keyboard.type("parked")  # it listens to keys: a value that is put there is not always seen
        page.wait_for_selector(".md-search-result__item")
        assert "how-to/ordering.html" in " ".join(
            str(link.get_attribute("href")) for link in page.locator(".md-search-result__item a").all()
        )
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
