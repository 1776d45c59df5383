"""W3C trace context on its way from a publisher to a worker: it travels in the event's metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["remember_trace"]

_PARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?\Z")
_LONGEST_STATE: Final = 512


def remember_trace(metadata: dict[str, str] | None, headers: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """The metadata, with the trace of the request unless it has one of its own; a malformed one is left out."""
    parent = headers.get(b"traceparent")
    if parent is None or not _PARENT.match(parent) or (metadata and "traceparent" in metadata):
        return metadata
    found = {**(metadata or {}), "traceparent": parent.decode("ascii")}
    state = headers.get(b"tracestate")
    if state and len(state) <= _LONGEST_STATE and state.isascii() and b"\x00" not in state:
        found["tracestate"] = state.decode("ascii")
    return found
