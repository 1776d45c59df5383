"""Names, patterns and tags: what an event type may look like, and who wants which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import msgspec

from eventhub.errors import InvalidEventError, InvalidPatternError

__all__ = [
    "MAX_TAGS",
    "MAX_WANTED_TAGS",
    "RESERVED",
    "Pattern",
    "any_of",
    "check_name",
    "check_queue",
    "check_type",
    "parse_tags",
    "type_matcher",
]

MAX_LENGTH: Final = 128
MAX_WILDCARDS: Final = 8
MAX_TAGS: Final = 64
"""Of an event."""
MAX_WANTED_TAGS: Final = 256
"""That one request for work, or one filter of a list, may name."""
RESERVED: Final = "hub"
"""The queue that messages to subscribers wait in: nobody else takes from it."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def check_name(kind: str, value: object) -> str:
    """The value itself if it is a good event type, tag or queue name, else an error that says what is."""
    if isinstance(value, str) and _NAME.match(value):
        return value
    shown = repr(value if not isinstance(value, str) or len(value) <= MAX_LENGTH else value[:40] + "…")
    raise InvalidEventError(
        f"{kind} {shown} is not usable: give 1 to {MAX_LENGTH} letters, digits, dots, colons, underscores or hyphens."
    )


def check_queue(kind: str, value: object) -> str:
    """The value itself if it is a good name for a queue that is not the hub's own."""
    name = check_name(kind, value)
    if name == RESERVED:
        raise InvalidEventError(f"{kind} {name!r} is where the hub keeps its messages; choose another name.")
    return name


def check_type(value: object) -> str:
    """The value itself if it is a good event type."""
    return check_name("The event type", value)


class Pattern(msgspec.Struct, frozen=True):
    """A subscription pattern: ``*`` alone takes all, else ``*`` is exactly one dot-separated segment.

    Everything else is literal. Matching compares segment by segment, so it is linear for any input.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text:
            raise InvalidPatternError(f"The pattern {self.text!r} is empty; use '*' to take every event.")
        if len(self.text) > MAX_LENGTH:
            raise InvalidPatternError(f"The pattern has {len(self.text)} characters; at most {MAX_LENGTH} are allowed.")
        wildcards = self.text.split(".").count("*")
        if wildcards > MAX_WILDCARDS:
            raise InvalidPatternError(
                f"The pattern {self.text!r} has {wildcards} wildcards; at most {MAX_WILDCARDS} are allowed."
            )

    def matches(self, event_type: str) -> bool:
        if self.text in ("*", event_type):
            return True
        if "*" not in self.text:
            return False
        wanted, given = self.text.split("."), event_type.split(".")
        if len(wanted) != len(given):
            return False
        return all(w in ("*", g) and (w != "*" or g != "") for w, g in zip(wanted, given, strict=True))


def type_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether any of the patterns takes an event type, as a function."""
    texts = frozenset(patterns)
    wildcards = [Pattern(text) for text in texts if "*" in text]
    return lambda event_type: event_type in texts or any(pattern.matches(event_type) for pattern in wildcards)


def parse_tags(tags: str | Iterable[str] | None, *, most: int | None = MAX_TAGS) -> tuple[str, ...]:
    """Tags as a sorted set without blanks around them, from ``"a, b"`` or ``["a", "b"]``.

    Repeated and empty ones count, too: more than ``most`` are refused before any of them is looked at.
    """
    if tags is None:
        return ()
    if isinstance(tags, str):
        if most is not None:
            _check_tag_text(tags, most)
        parts: list[str] = tags.split(",")
    else:
        parts = list(tags if most is None else islice(tags, most + 1))
        if most is not None and len(parts) > most:
            raise InvalidEventError(f"There are more than {most} tags; give at most {most}.")
    cleaned = [part.strip() if isinstance(part, str) else part for part in parts]
    return tuple(sorted({check_name("The tag", tag) for tag in cleaned if tag != ""}))


def _check_tag_text(tags: str, most: int) -> None:
    """Room for ``most`` of the longest tags, each with a comma and a blank behind it."""
    count, room = tags.count(",") + 1, most * (MAX_LENGTH + 2)
    if count > most:
        raise InvalidEventError(f"There are {count:,} tags; give at most {most}.")
    if len(tags) > room:
        raise InvalidEventError(f"tags has {len(tags):,} characters; at most {room:,} are allowed.")


def any_of(wanted: frozenset[str] | None, tags: Iterable[str]) -> bool:
    """Whether one of the wanted tags, as a whole, is among these; all tags will do when none is named."""
    return wanted is None or not wanted.isdisjoint(tags)
