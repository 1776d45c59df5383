"""One declaration a route: the table from which both the routing and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.http.answers import Answer

if TYPE_CHECKING:
    from eventhub.http.asking import Ask

__all__ = ["ANY_KEY", "BATCH", "EVENT", "REPORT", "Example", "Operation"]

REPORT: Final = 64 * 1024
"""Bytes: a body about one event."""
EVENT: Final = 6 * (1_048_576 + 128 * 1024)
"""Bytes: an event with the largest payload and its envelope, even if every letter is written as ``\\u0061``."""
BATCH: Final = 16 * 1_048_576
"""Bytes: many at once."""
JSON_TYPES: Final = ("application/json",)
ANY_KEY: Final = ""
"""The scope of what every key may do."""

Handler = Callable[["Ask"], Awaitable[Answer]]


class Example(msgspec.Struct, frozen=True):
    """A request that works, for the documentation; and what is answered to it."""

    body: Any = None
    answer: Any = None
    query: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What a method on a path does, needs and answers."""

    method: str
    path: str
    name: str
    summary: str
    handle: Handler
    scope: str | None
    """The scope that a key needs, ``ANY_KEY`` for a key alone; None for everybody."""
    group: str = "Events"
    body: Any = None
    described: Any = None
    """The part of ``body`` that the document tells of, where it takes more."""
    body_optional: bool = False
    """Whether a request without a body stands for an empty object."""
    query: Any = None
    answers: Mapping[int, Any]
    problems: tuple[int, ...] = ()
    limit: int = REPORT
    accepts: tuple[str, ...] = JSON_TYPES
    gives: str = "application/json"
    safe: bool = True
    """Whether a GET changes nothing, so that a HEAD may ask for it too."""
    streams: bool = False
    """Whether its answer goes on until somebody ends it: then no page from elsewhere may ask for it."""
    cloud_events: bool = False
    """Whether the body may be a CloudEvent's data, of any type, with its attributes in the headers."""
    headers: tuple[tuple[str, str], ...] = ()
    example: Example = Example()
    description: str = ""
    in_part: bool = False
    """Whether it shows a key that may read in part what it may, and no more; else such a key is refused."""
