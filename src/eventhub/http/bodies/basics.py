"""What all bodies have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

__all__ = [
    "LARGEST_ID",
    "MOST_EVENTS",
    "Answered",
    "Asked",
    "Counted",
    "EventType",
    "Id",
    "Moment",
    "Seconds",
    "Tags",
    "Time",
]

MOST_EVENTS: Final = 1000
LARGEST_ID: Final = 2**63 - 1

Id = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Tags = str | list[str]
EventType = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9._:-]{1,128}$"})]
"""The rule is told here and enforced where events are composed, for all publishers alike."""
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time that is asked for; a text, because in a query any number would pass for a time."""
Time = Annotated[datetime, Meta(tz=True)]
"""A time that is told, with its zone."""
Seconds = Annotated[float, Meta(ge=0, le=315_360_000)]


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body that a client sends: unknown members are refused, because they are misspelt ones."""


class Answered(msgspec.Struct, kw_only=True):
    """A body that the hub answers with."""


class Counted(Answered):
    """How many it was."""

    count: int
