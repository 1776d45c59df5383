"""Paths into an event, such as ``payload.customer.id``: what filters and ordering keys read from it.

type                    its type                   metadata.<name>      one entry; the name may have dots
ordering_key            the publisher's own key    payload.<a>.<b>      a value inside; a number counts in a list
payload                 all of it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

__all__ = ["LONGEST", "MISSING", "MOST_SEGMENTS", "Path"]

LONGEST: Final = 256
MOST_SEGMENTS: Final = 16
_ROOTS: Final = "payload.…, metadata.…, type or ordering_key"


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""What is read where a path leads nowhere; a null that is there is None."""


class Path(msgspec.Struct, frozen=True):
    """A path that was checked; ``steps`` have the number beside each segment that can count in a list."""

    text: str
    root: str
    steps: tuple[tuple[str, int | None], ...]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Raises ValueError with the words that follow the path in an error."""
        if not isinstance(text, str):
            raise ValueError(f"is a {type(text).__name__}; give a text that begins with {_ROOTS}")  # noqa: TRY004
        if len(text) > LONGEST:
            raise ValueError(f"has {len(text)} characters; at most {LONGEST} are allowed")
        root, dot, rest = text.partition(".")
        if root not in ("payload", "metadata", "type", "ordering_key"):
            raise ValueError(f"does not begin with {_ROOTS}")
        if root == "metadata":
            if not rest:
                raise ValueError("names no entry; give metadata.<name>")
            return cls(text, root, ((rest, None),))
        if not dot:
            return cls(text, root, ())
        if root != "payload":
            raise ValueError(f"goes on after {root}, which has no parts")
        segments = rest.split(".")
        if "" in segments:
            raise ValueError("has an empty segment")
        if len(segments) > MOST_SEGMENTS:
            raise ValueError(f"has {len(segments)} segments; at most {MOST_SEGMENTS} are allowed")
        return cls(text, root, tuple((segment, _index(segment)) for segment in segments))

    def read(self, event_type: str, payload: Any, metadata: Mapping[str, str] | None, ordering_key: str | None) -> Any:
        """The value there, or MISSING."""
        if self.root == "payload":
            return self.inside(payload)
        if self.root == "metadata":
            return MISSING if metadata is None else metadata.get(self.steps[0][0], MISSING)
        if self.root == "type":
            return event_type
        return MISSING if ordering_key is None else ordering_key

    def inside(self, payload: Any) -> Any:
        """The value in a payload, or MISSING."""
        value = payload
        for name, index in self.steps:
            if type(value) is dict:
                value = value.get(name, MISSING)
                if value is MISSING:
                    return MISSING
            elif type(value) is list and index is not None and index < len(value):
                value = value[index]
            else:
                return MISSING
        return value


def _index(segment: str) -> int | None:
    """The number that a segment is, in its one spelling."""
    if segment.isascii() and segment.isdigit() and (segment == "0" or segment[0] != "0"):
        return int(segment)
    return None
