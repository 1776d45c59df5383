"""What browsers fetch of the dashboard: one page and its files. They hold no data, so they need no key."""

from __future__ import annotations

from typing import Final

from eventhub.http.answers import Answer, empty
from eventhub.http.asking import Ask
from eventhub.http.dashboard.files import PageFile
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem

__all__ = ["PAGES"]

POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FRESH: Final = (b"cache-control", b"no-cache")
"""Kept by browsers, but asked about each time: a new version of the hub has new files."""


async def page(ask: Ask) -> Answer:
    """The dashboard."""
    return _sent(ask, ask.service.page_files["index.html"], (b"content-security-policy", POLICY))


async def asset(ask: Ask) -> Answer:
    """A file of it."""
    name = ask.parameters["name"]
    found = ask.service.page_files.get(name)
    if found is None:
        raise Problem(404, "not-found", f"The dashboard has no file {name[:80]!r}.")
    return _sent(ask, found, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"))


async def favicon(_: Ask) -> Answer:
    """Browsers ask for it on their own; the page names its own picture."""
    return empty()


def _sent(ask: Ask, file: PageFile, *headers: tuple[bytes, bytes]) -> Answer:
    headers = (FRESH, (b"etag", file.tag), *headers)
    known = [tag.strip().removeprefix(b"W/") for tag in ask.headers.get(b"if-none-match", b"").split(b",")]
    if file.tag in known:
        return empty(304, headers)
    return Answer(200, file.body, content_type=file.content_type, headers=headers)


PAGES: Final = (
    Operation(
        method="GET",
        path="/",
        name="page",
        summary="The dashboard",
        handle=page,
        scope=None,
        answers={200: str},
        gives="text/html",
    ),
    Operation(
        method="GET",
        path="/assets/{name}",
        name="asset",
        summary="A file of the dashboard",
        handle=asset,
        scope=None,
        answers={200: str},
        problems=(404,),
        gives="*/*",
    ),
    Operation(
        method="GET",
        path="/favicon.ico",
        name="favicon",
        summary="Nothing",
        handle=favicon,
        scope=None,
        answers={204: None},
        gives="*/*",
    ),
)
"""No part of the interface for programs, so they are not in its description."""
