"""The files of the dashboard, read once and served from memory."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

import msgspec

__all__ = ["PageFile", "load_files"]

KINDS: Final = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "png": b"image/png",
    "svg": b"image/svg+xml",
}
"""What else lies there is not served."""


class PageFile(msgspec.Struct, frozen=True):
    """One file, ready to be sent; the tag tells browsers whether they have it already."""

    body: bytes
    content_type: bytes
    tag: bytes


def load_files() -> dict[str, PageFile]:
    """Every file by its name."""
    found = {}
    for file in files("eventhub.http.dashboard").joinpath("static").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None and file.is_file():
            body = file.read_bytes()
            found[file.name] = PageFile(body, kind, b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"')
    return found
